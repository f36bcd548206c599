"""Routes that say how the service is, and what it serves."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request, Response

from elmokit.service.answers import json_answer
from elmokit.service.metrics import resident_bytes
from elmokit.service.refusals import Refusal
from elmokit.service.schemas import Health, ModelFacts
from elmokit.service.state import service_of

router = APIRouter(tags=["service"])
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/health", response_model=Health)
async def health() -> Response:
    """Whether the service is up."""
    return json_answer({"status": "up"})


@router.get("/ready", response_model=Health)
async def ready(request: Request) -> Response:
    """Whether the model is loaded."""
    if not service_of(request).ready:
        raise Refusal(503, "the model is still being loaded; try again soon", retry_after=1)
    return json_answer({"status": "ready"})


@router.get("/model", response_model=ModelFacts)
async def model(request: Request) -> Response:
    """What the loaded model is, and what a request may cost."""
    service = service_of(request)
    return json_answer(service.model.facts() | {"limits": asdict(service.limits)})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus."""
    service = service_of(request)
    gatherer = service.gatherer
    gauges = {
        "ready": int(service.ready),
        "waiting_requests": gatherer.requests,
        "waiting_words": gatherer.waiting_cost,
        "waiting_values": gatherer.waiting_values,
        "resident_bytes": resident_bytes(),
    }
    return Response(service.metrics.text(gauges), media_type=PROMETHEUS)
