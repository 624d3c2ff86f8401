import { type Envelope, envelopeSchema } from "../contract/envelope.ts";
import { type Hide, hideAll, hideNothing, hiding } from "../contract/hide.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { holdsMarks, REDACTED, redact } from "../contract/redact.ts";
import type { Catalog } from "./catalog.ts";
import { routesOf, startedBy } from "./consumer.ts";

/** Of a message what says how its payload is read: as of the present version, unless it says another. */
export type Typed = Pick<Envelope, "message_type"> & Partial<Pick<Envelope, "schema_version">>;

/** What the definitions of a catalog withhold of its messages. */
export interface Marks {
  /** The definitions that mark something. */
  readonly marked: readonly MessageDefinition[];
  /** A payload by the definition of its type. `withheld` hears of each value that is withheld. */
  payload(of: Typed, payload: unknown, withheld?: (one: unknown) => void): unknown;
  /** A message that may be anything as it came to a queue, and what hides in the words about it what is withheld there. */
  message(queue: string, body: unknown): { body: unknown; hide: Hide };
}

/** The marks of a catalog; undefined where no definition marks anything. */
export function marksOf(catalog: Catalog): Marks | undefined {
  const known = made.get(catalog);
  if (known) return known.marks;
  const marked = definitionsOf(catalog).filter(({ payload }) => holdsMarks(payload));
  const marks = marked.length > 0 ? marksBy(catalog, marked) : undefined;
  made.set(catalog, { marks });
  return marks;
}

const made = new WeakMap<Catalog, { readonly marks: Marks | undefined }>();

/** Hides in the words about a delivered message what it withholds. It is looked for when something is hidden first. */
export function hideIn(catalog: Catalog, queue: string, body: unknown): Hide {
  const marks = marksOf(catalog);
  if (marks === undefined) return hideNothing;
  let hide: Hide | undefined;
  return (value) => {
    hide ??= hideOrAll(() => marks.message(queue, body).hide);
    return hide(value);
  };
}

/** What came from a queue may go in circles, or be deeper than can be looked into. */
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
    // What an older version called its fields is not known.
    const isUnknown =
      definitions === undefined || definitions.some((one) => isMarked(one) && (schema_version ?? one.version) < one.version);
    if (!isUnknown) return definitions.reduce((shown, one) => redact(one.payload, shown, withheld), value);
    if (value === null || value === undefined) return value;
    withheld(value);
    return REDACTED;
  }

  /**
   * What no envelope has is withheld with the payload: it may be the same under a wrong name. Of a payload that is kept elsewhere nothing
   * can be told apart.
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

/** Whether a field is the envelope's own. A text of a wrong form is shown; what has another shape may be the payload under a wrong name. */
function isOfEnvelope(name: string, value: unknown): boolean {
  if (!Object.hasOwn(envelopeSchema.shape, name)) return false;
  return typeof value !== "object" || envelopeSchema.shape[name as keyof typeof envelopeSchema.shape].safeParse(value).success;
}

/**
 * Whether a message may hold something marked: its type's definition does; or nobody knows its type, and a definition of those that travel
 * on its queue does.
 */
function mayHoldMarks(catalog: Catalog, queue: string, body: unknown): boolean {
  const definitions = definitionsOf(catalog);
  const type = typeof body === "object" && body !== null ? (body as Record<string, unknown>).message_type : undefined;
  const own = definitions.filter((one) => one.type === type);
  if (own.length > 0) return own.some(isMarked);
  const consumer = catalog.consumers.find((one) => one.queue.name === queue);
  return consumer === undefined || definitionsOf({ ...catalog, consumers: [consumer] }).some(isMarked);
}
