import { derivedNames } from "../../messages/fact.ts";
import { capitalForms, casedForms, composedForms, inLowerCase, unescaped, writtenForms } from "./written.ts";

/** A person's identifiers, and their replacements. */
export interface Person {
  /** All ids of the person's contacts, with their pseudonyms. */
  ids: { id: string; as: string }[];
  emails: string[];
  names: string[];
  phones: string[];
}

/** The replacement of an address, a name or a telephone number. */
const GONE = "[forgotten]";

/** The origin of a text: a field of this app, a fact's payload, a merge's payload, or any other place. */
type Where = "ours" | "stated" | "merged" | "said";

/** Names of fields that contain a contact's id. The whole value of such a field is compared, whatever its length. */
const CONTACT = ["contact_id", "contactId", "contact"];
const NAMES_A_CONTACT: Readonly<Record<Where, ReadonlySet<string>>> = {
  ours: new Set(CONTACT),
  stated: new Set(CONTACT),
  merged: new Set([...CONTACT, "from", "into"]),
  said: new Set(CONTACT),
};

/** Names of the app's fields that may contain a contact's id or another position. */
const MAY_NAME_A_CONTACT = new Set(["from", "into", "next", "after", "key"]);

/**
 * Names of fields that never contain a contact's id. These fields remain unchanged, because an account or a brand may have the same name as
 * a contact.
 */
const ACCOUNTS = ["account", "partner", "entity"];
const NAMES_ANOTHER: Readonly<Record<Where, ReadonlySet<string>>> = {
  ours: new Set([...ACCOUNTS, "tenant_id", "brand", "endpoint_id", "batch_id", "sync_id"]),
  stated: new Set(ACCOUNTS),
  merged: new Set(ACCOUNTS),
  said: new Set(),
};

/**
 * Fields of a message or fact, outside the payload, that contain a term of the engine, a time or a reference. A value that matches the
 * field's pattern remains unchanged, even if the value equals a contact's id.
 */
const WORD = /^[a-z]+(?:[._-][a-z]+)*$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/;
const OF_ENVELOPES: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(["occurred_at", "recorded_at", "created_at", "must_end_by"].map((name) => [name, TIME])),
  ...Object.fromEntries(
    ["message_type", "kind", "type", "queue", "outbox", "event_type", "fact_type", "status", "state"].map((name) => [name, WORD]),
  ),
  traceparent: /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/,
  trace_id: /^[0-9a-f]{32}$/,
  payload_ref: /^r2:\/\//,
};

/** Names of fields that contain the name of a fact. */
const NAMES_A_FACT = new Set(["fact_id", "outcome_id"]);

/** Names of fields that contain a row in the sender's original form. */
const HOLDS_A_ROW = new Set(["raw"]);

/**
 * Minimum number of digits of a telephone number that is also searched without signs and spaces. Fewer digits would match unrelated
 * numbers.
 */
const LEAST_DIGITS = 9;

/** A word consists of letters, accents and digits, with single marks such as `-` between letters. */
const MARK = "[-_.@+]";
const LETTER = "[\\p{L}\\p{M}\\p{N}]";
/** An escape of JSON or of a URL before a word is not part of the word. */
const BEGINS = `(?:(?<!${LETTER}${MARK}?)|(?<=\\\\[bfnrt]|\\\\u[0-9a-f]{4}|%[0-9a-f]{2}))`;
const ENDS = `(?!${MARK}?${LETTER})`;
/** In the dotted path of an invalid field in an error text, a field's name is a separate word. */
const BEGINS_IN_PATH = "(?<=\\b(?:payload|properties)\\.(?:[^\\s.]+\\.)*)";
const ENDS_IN_PATH = `(?![-_@+]?${LETTER})`;

/**
 * True for an id that is searched within other texts. A short id, or an id of digits only, is not searched there, because it would match
 * unrelated texts.
 */
export function isDistinct(id: string): boolean {
  return id.length >= 6 ? /\D/.test(id) : id.length >= 4 && /\d/.test(id) && /\p{L}/u.test(id);
}

/**
 * Returns the texts between separators and quotes of a row, to search for ids that are not distinct. A leading apostrophe may be part of
 * the text, or protect a formula, so both forms are included.
 */
export function cellsOf(row: string): string[] {
  const cells = row.split(/[,;\t\r\n"]+/).map((cell) => cell.trim());
  return cells.flatMap((cell) => (cell.startsWith("'") ? [cell, cell.slice(1)] : [cell]));
}

/**
 * Finds a person in texts and replaces the identifiers by pseudonyms. In JSON, a field with a contact's id is compared as a whole. Nested
 * objects, and texts that contain JSON, are searched in the same way. In all other texts, distinct ids, addresses, names of two words and
 * telephone numbers are found as words. Fields that contain the name of an account, a ledger or a tenant remain unchanged.
 */
export class Traces {
  /**
   * The identifiers of the person in all searched forms, in lower case. A text that contains none of these forms does not mention the
   * person.
   */
  readonly mentions: readonly string[];
  /** The searched forms for JSON. An id that is searched only as a whole field has quotes around it. */
  readonly mentionsInJson: readonly string[];
  readonly #ids: ReadonlyMap<string, string>;
  readonly #written: ReadonlyMap<string, string>;
  readonly #numbers: ReadonlySet<string>;
  readonly #idWords: RegExp;
  readonly #otherWords: RegExp;
  readonly #factName: ((name: string) => string) | undefined;

  /**
   * `factName` returns the replacement for a fact's name that contains the person's id. Without `factName`, such a name is rewritten like
   * any text.
   */
  constructor({ ids, emails, names, phones }: Person, factName?: (name: string) => string) {
    this.#factName = factName;
    this.#ids = new Map(ids.map(({ id, as }) => [id, as]));
    const distinct = ids.filter(({ id }) => isDistinct(id));
    this.#written = new Map(distinct.flatMap(({ id, as }) => writtenForms(id).map((form) => [form, as])));
    const digits = phones.map((phone) => phone.replace(/\D/g, "")).filter(({ length }) => length >= LEAST_DIGITS);
    this.#numbers = new Set(digits);
    const others = [...emails, ...names, ...phones, ...digits].filter((text) => text !== "").flatMap(composedForms);
    this.#idWords = anyOf([...this.#written.keys()], "gu");
    this.#otherWords = anyOf(others.flatMap((text) => [text, ...capitalForms(text)]).flatMap(writtenForms), "giu");
    const [short, long] = [ids.filter(({ id }) => !isDistinct(id)), others.flatMap(casedForms).concat(distinct.map(({ id }) => id))];
    const mentioned = (texts: readonly string[]) => [...new Set(texts.flatMap(writtenForms).map(inLowerCase))];
    this.mentions = mentioned([...long, ...short.map(({ id }) => id)]);
    this.mentionsInJson = [...mentioned(long), ...short.flatMap(({ id }) => quoted(id))];
  }

  /** Rewrites the text of a column, field or file of this name. `message_type` is the type of the message that contains the text. */
  rewrite(field: string, text: string, { message_type }: { message_type?: unknown } = {}): string {
    return this.#text(field, text, "ours", message_type);
  }

  /** Rewrites the value of a contact's property, which may have any name. */
  rewriteProperty(name: string, text: string): string {
    return this.#text(name, text, "said");
  }

  /** Rewrites the payload of a fact of this type. */
  rewritePayload(type: unknown, text: string): string {
    return this.#text("payload", text, payloadOf(type));
  }

  /** Rewrites names of fields that mention the person. Equal new names are numbered, so that no value is lost. */
  renamed(names: readonly string[]): Map<string, string> {
    const taken = new Set(names);
    return new Map(
      names.map((name) => {
        const rewritten = this.#inWords(name);
        if (rewritten === name) return [name, name];
        let free = rewritten;
        for (let nth = 2; taken.has(free); nth++) free = `${rewritten} ${nth}`;
        taken.add(free);
        return [name, free];
      }),
    );
  }

  /** True for an id of one of the person's contacts. */
  isTheirs(contactId: unknown): boolean {
    return typeof contactId === "string" && this.#ids.has(contactId);
  }

  /** True if a row or a part of a file mentions the person. An id that is not distinct counts only as a whole cell. */
  isSaidIn(text: string): boolean {
    if (!this.areIn(text)) return false;
    const plain = unescaped(text);
    return this.#inWords(plain) !== plain || cellsOf(plain).some((cell) => this.#ids.has(cell));
  }

  /** True if a text may mention the person, and must be rewritten. */
  areIn(text: string): boolean {
    const lower = inLowerCase(unescaped(text));
    return this.mentions.some((mention) => lower.includes(mention));
  }

  #text(field: string, text: string, where: Where, type?: unknown): string {
    const rewritten = this.#rewritten(field, text, where, type);
    const isFactsName = rewritten !== text && where !== "said" && NAMES_A_FACT.has(field);
    return (isFactsName && this.#factName?.(text)) || rewritten;
  }

  #rewritten(field: string, text: string, where: Where, type?: unknown): string {
    if (NAMES_ANOTHER[where].has(field)) return text;
    const id = this.#ids.get(text);
    const namesContact = NAMES_A_CONTACT[where].has(field) || (field === "subject" && isContacts(type));
    if (id !== undefined && (namesContact || isDistinct(text) || (where === "ours" && MAY_NAME_A_CONTACT.has(field)))) return id;
    if (namesContact) return this.#withoutOthers(text);
    if (where === "ours" && field === "item" && text.startsWith("after "))
      return `after ${this.#ids.get(text.slice(6)) ?? this.#inWords(text.slice(6))}`;
    if (where === "ours" && HOLDS_A_ROW.has(field)) return this.isSaidIn(text) ? GONE : text;
    if (/^\s*[[{"]/.test(text)) {
      const value = parsed(text);
      if (value !== undefined) {
        const rewritten = this.#value(field, value, where, type);
        return rewritten === value ? text : JSON.stringify(rewritten);
      }
    }
    return this.#inWords(text);
  }

  /** Returns a value in which all mentions of the person are rewritten. */
  #value(field: string, value: unknown, where: Where, type?: unknown): unknown {
    if (typeof value === "string") return this.#text(field, value, where, type);
    if (Array.isArray(value)) {
      const items = value.map((item) => this.#value(field, item, where, type));
      return items.some((item, index) => item !== value[index]) ? items : value;
    }
    if (typeof value === "number" || RAW.isRawJSON(value)) {
      const digits = RAW.isRawJSON(value) ? value.rawJSON : String(value);
      if (NAMES_A_CONTACT[where].has(field)) return this.#ids.get(digits) ?? value;
      return this.#numbers.has(digits) && !field.endsWith("_cents") ? GONE : value;
    }
    if (typeof value !== "object" || value === null) return value;
    return this.#object(value as Record<string, unknown>, where, type);
  }

  #object(value: Record<string, unknown>, where: Where, type?: unknown): object {
    const isFact = where === "ours" && ("occurred_at" in value || "recorded_at" in value) && "payload" in value;
    const isEnvelope = isFact || (where === "ours" && "message_type" in value);
    // In the body of a webhook, the fact is in `data`, and the fact's type is in `type` beside `data`.
    const own = value.message_type ?? ("data" in value ? value.type : undefined);
    const within = (name: string): Where => {
      if (isFact && name === "payload") return payloadOf(value.type ?? type);
      return where === "ours" && name !== "properties" ? "ours" : "said";
    };
    const entries = Object.entries(value).map(([name, inner]) => {
      if (isEnvelope && typeof inner === "string" && OF_ENVELOPES[name]?.test(inner)) return [name, inner] as const;
      return [name, this.#value(name, inner, typeof inner === "object" ? within(name) : where, own)] as const;
    });
    const renamed = this.renamed(Object.keys(value));
    const isSame = entries.every(([name, inner]) => renamed.get(name) === name && inner === value[name]);
    if (isSame) return value;
    const rewritten = Object.fromEntries(entries.map(([name, inner]) => [renamed.get(name), inner]));
    // The trace state is removed if it mentions the person. Its format is unknown, and the trace is complete without the trace state.
    if (isEnvelope && rewritten.tracestate !== value.tracestate) delete rewritten.tracestate;
    return isFact && isOutcome(value) && rewritten.fact_id !== value.fact_id ? { derived: derivedNames(value), ...rewritten } : rewritten;
  }

  #inWords(text: string): string {
    return this.#withoutOthers(text.replace(this.#idWords, (word) => this.#written.get(word) ?? word));
  }

  #withoutOthers(text: string): string {
    return text.replace(this.#otherWords, GONE);
  }
}

/** True for an outcome that a ledger has recorded. The outcome's name is part of the names of later messages. */
function isOutcome(value: Record<string, unknown>): value is Record<string, unknown> & { entity: string; fact_id: string } {
  const { type, sequence, entity, fact_id } = value;
  return type === "outcome" && typeof sequence === "number" && typeof entity === "string" && typeof fact_id === "string";
}

/** Returns a regular expression that matches any of the given texts as words. A longer text is tried before a shorter text. */
function anyOf(texts: readonly string[], flags: string): RegExp {
  const longest = [...new Set(texts)].sort((one, other) => other.length - one.length);
  const any = `(?:${longest.map(escaped).join("|")})`;
  return new RegExp(longest.length > 0 ? `${BEGINS}${any}${ENDS}|${BEGINS_IN_PATH}${any}${ENDS_IN_PATH}` : "(?!)", flags);
}

function payloadOf(factType: unknown): Where {
  return factType === "contact_merged" ? "merged" : "stated";
}

function isContacts(type: unknown): boolean {
  return typeof type === "string" && type.startsWith("contact.");
}

/** Returns the notations of a text in JSON, and in nested JSON. */
function quoted(text: string): string[] {
  const once = JSON.stringify(text);
  return [once, JSON.stringify(once).slice(1, -1)].map(inLowerCase);
}

/** With these functions, a number keeps its notation where JavaScript would write the number differently. */
const RAW = JSON as unknown as { rawJSON(source: string): unknown; isRawJSON(value: unknown): value is { rawJSON: string } };

function parsed(text: string): unknown {
  const asWritten = (_: string, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && String(value) !== source ? RAW.rawJSON(source) : value;
  };
  try {
    return JSON.parse(text, asWritten);
  } catch {
    return undefined;
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
