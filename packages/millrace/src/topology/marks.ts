import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { type Hide, hideAll, hideNothing, hiding } from "../contract/hide.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { holdsMarks, REDACTED, redact } from "../contract/redact.ts";
import type { Catalog } from "./catalog.ts";
import { routesOf, startedBy } from "./consumer.ts";

/** The fields of an envelope that select the schema of its payload. A message without a version has the present version of the schema. */
export type Typed = Pick<Envelope, "message_type"> & Partial<Pick<Envelope, "schema_version">>;

/** Redacts the marked fields of a catalog's messages. */
export interface Marks {
  /** The definitions with marked fields. */
  readonly marked: readonly MessageDefinition[];
  /** Redacts a payload by the definition of its type. The function calls `withheld` with each redacted value. */
  payload(of: Typed, payload: unknown, withheld?: (one: unknown) => void): unknown;
  /** Redacts a received message of any shape. `hide` removes the redacted values from strings about the message. */
  message(queue: string, body: unknown): { body: unknown; hide: Hide };
}

/** The marks of a catalog; undefined when no definition marks a field. */
export function marksOf(catalog: Catalog): Marks | undefined {
  const known = made.get(catalog);
  if (known) return known.marks;
  const marked = definitionsOf(catalog).filter(({ payload }) => holdsMarks(payload));
  const marks = marked.length > 0 ? marksBy(catalog, marked) : undefined;
  made.set(catalog, { marks });
  return marks;
}

const made = new WeakMap<Catalog, { readonly marks: Marks | undefined }>();

/**
 * Returns a function that removes the marked values of a received message from a string. The first call of the returned function determines
 * the marked values.
 */
export function hideIn(catalog: Catalog, queue: string, body: unknown): Hide {
  const marks = marksOf(catalog);
  if (marks === undefined) return hideNothing;
  let hide: Hide | undefined;
  return (value) => {
    hide ??= hideOrAll(() => marks.message(queue, body).hide);
    return hide(value);
  };
}

/** Hides the whole value if the received message cannot be searched because it is circular or nested too deeply. */
function hideOrAll(look: () => Hide): Hide {
  try {
    return look();
  } catch {
    return hideAll;
  }
}

function definitionsOf({ consumers }: Pick<Catalog, "consumers">): MessageDefinition[] {
  return [...startedBy(consumers).map(({ on }) => on), ...routesOf(consumers).map(({ event }) => event)];
}

const isMarked = ({ payload }: MessageDefinition) => holdsMarks(payload);

function marksBy(catalog: Catalog, marked: readonly MessageDefinition[]): Marks {
  const byType = Map.groupBy(definitionsOf(catalog), ({ type }) => type);

  function payload({ message_type, schema_version }: Typed, value: unknown, withheld: (one: unknown) => void = () => {}): unknown {
    const definitions = byType.get(message_type);
    // The field names of an older schema version are not known.
    const isUnknown =
      definitions === undefined || definitions.some((one) => isMarked(one) && (schema_version ?? one.version) < one.version);
    if (!isUnknown) return definitions.reduce((shown, one) => redact(one.payload, shown, withheld), value);
    if (value === null || value === undefined) return value;
    withheld(value);
    return REDACTED;
  }

  /**
   * A field that no envelope has is redacted like the payload, because it may be the payload under a wrong name. If a message's payload is
   * stored in R2, every string about the message is hidden.
   */
  function message(queue: string, body: unknown): { body: unknown; hide: Hide } {
    if (!mayHoldMarks(catalog, queue, body)) return { body, hide: hideNothing };
    if (typeof body !== "object" || body === null || Array.isArray(body)) return { body: REDACTED, hide: hideAll };
    const said = body as Record<string, unknown>;
    const withheld: unknown[] = [];
    const note = (one: unknown) => void withheld.push(one);
    const { message_type: type, schema_version: version } = said;
    const of = { message_type: typeof type === "string" ? type : "", schema_version: typeof version === "number" ? version : 0 };
    const shown = Object.entries(said).map(([name, value]) => {
      if (name === "payload_inline") return [name, payload(of, value, note)];
      if (isOfEnvelope(name, value)) return [name, value];
      note(value);
      return [name, REDACTED];
    });
    return { body: Object.fromEntries(shown), hide: typeof said.payload_ref === "string" ? hideAll : hiding(withheld) };
  }

  return { marked, payload, message };
}

/**
 * True if a field belongs to the envelope. An invalid string of the envelope is shown, but an invalid object may be the payload under a
 * wrong name.
 */
function isOfEnvelope(name: string, value: unknown): boolean {
  if (!Object.hasOwn(envelopeSchema.shape, name)) return false;
  return typeof value !== "object" || envelopeSchema.shape[name as keyof typeof envelopeSchema.shape].safeParse(value).success;
}

/**
 * True if a message may contain marked values. A message may contain them if its type has marks, or if its type is unknown and a type of
 * its queue has marks.
 */
function mayHoldMarks(catalog: Catalog, queue: string, body: unknown): boolean {
  const definitions = definitionsOf(catalog);
  const type = typeof body === "object" && body !== null ? (body as Record<string, unknown>).message_type : undefined;
  const own = definitions.filter((one) => one.type === type);
  if (own.length > 0) return own.some(isMarked);
  const consumer = catalog.consumers.find((one) => one.queue.name === queue);
  return consumer === undefined || definitionsOf({ ...catalog, consumers: [consumer] }).some(isMarked);
}
