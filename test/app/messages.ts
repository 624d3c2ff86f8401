import type { MessageDefinition } from "../../packages/millrace/src/contract/message.ts";
import type { Route } from "../../packages/millrace/src/topology/routes.ts";
import { app } from "../../src/catalog.ts";
import type { Json } from "../api/client.ts";
import type { Names } from "./payloads.ts";

/** Every command of the consumers' workflows. */
export const COMMANDS: readonly MessageDefinition[] = app.consumers.flatMap(({ starts = [] }) => starts.map(({ on }) => on));

/** The messages that follow each event. */
export const ROUTES: readonly Route[] = app.consumers.flatMap(({ routes = [] }) => routes);

export const EVENTS: readonly MessageDefinition[] = ROUTES.map(({ event }) => event);

export const MESSAGES: readonly MessageDefinition[] = [...COMMANDS, ...EVENTS];

let keys = 0;

/** A message of a tenant, which belongs to the job in `names`. */
export function messageOf(definition: MessageDefinition, tenantId: string, names: Names, payload: Json, more: object = {}): Json {
  return {
    schema_version: definition.version,
    message_type: definition.type,
    kind: definition.kind,
    source: "test",
    correlation_id: names.correlation_id,
    causation_id: names.causation_id,
    idempotency_key: `${names.content_id}/${++keys}`,
    subject: definition.subject(definition.payload.parse(payload)),
    tenant_id: tenantId,
    created_at: "2026-10-01T09:30:00.000Z",
    traceparent: `00-${names.trace_id}-b7ad6b7169203331-01`,
    payload_inline: payload,
    ...more,
  };
}
