// The OpenAPI document as a page: routes, their fields, and how to call them.
import { element } from "./elements.js";
import { urlOf } from "./service.js";

const spec = await (await fetch(urlOf("/openapi.json"))).json();
const named = (schema) => (schema?.$ref ? spec.components.schemas[schema.$ref.split("/").pop()] : schema);

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return typeOf(named(schema));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.type === "array") return `[${typeOf(schema.items)}]`;
  return schema.type ?? "any";
}

function fields(schema) {
  const rows = Object.entries(named(schema)?.properties ?? {}).map(([name, field]) =>
    element(
      "tr",
      {},
      element("td", {}, element("code", {}, name)),
      element("td", {}, typeOf(field)),
      element(
        "td",
        {},
        [
          named(schema).required?.includes(name) ? "needed" : null,
          field.default !== undefined && field.default !== null ? `default ${JSON.stringify(field.default)}` : null,
          field.description,
        ].filter(Boolean).join(" · "),
      ),
    ),
  );
  return element("table", { class: "fields-of" }, element("tbody", {}, rows));
}

function route(path, method, operation) {
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const answer = operation.responses?.["200"]?.content?.["application/json"]?.schema;
  const call = `curl ${urlOf("/")}${path.slice(1)}`; // urlOf would escape the braces of {name}
  const curl = body ? `${call} -H 'content-type: application/json' -d '{…}'` : call;
  return element(
    "details",
    { id: operation.operationId },
    element(
      "summary",
      {},
      element("code", {}, method.toUpperCase()),
      element("code", {}, path),
      element("span", { class: "soft" }, operation.description ?? ""),
    ),
    element("pre", { tabindex: "0" }, curl),
    body ? [element("h3", {}, "Body"), fields(body)] : null,
    answer ? [element("h3", {}, "Answer"), fields(answer)] : null,
  );
}

document.getElementById("description").textContent =
  `${spec.info.description} Errors are JSON: {"error": {"code": …, "message": …}}. Version ${spec.info.version}.`;
document.getElementById("routes").append(
  ...Object.entries(spec.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => route(path, method, operation)),
  ),
);
