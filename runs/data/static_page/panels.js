// What can be explored without a service.
import { comparePanel } from "./compare.js";
import { layersPanel } from "./layers.js";

export const PANELS = { compare: comparePanel, layers: layersPanel };
