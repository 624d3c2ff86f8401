/** What identifies a person, and what stands for it afterwards. */
export interface Person {
  /** Every contact that the person is known as, and its pseudonym. */
  ids: { id: string; as: string }[];
  emails: string[];
  names: string[];
  phones: string[];
}

/** What an address, a name or a telephone number becomes. */
const GONE = "[forgotten]";

/** Fields that name a contact: their whole text is an id, however short. */
const NAMES_A_CONTACT = new Set(["contact_id", "contactId", "contact", "from", "into", "next", "after", "key"]);

/** Fields that name something else, and are believed to: a tenant or an account may be called as a contact is. */
const NAMES_ANOTHER = new Set([
  ...["tenant_id", "message_type", "kind", "type", "queue", "source", "actor", "outbox", "endpoint_id", "batch_id", "sync_id", "brand"],
  ...["account", "partner", "entity", "traceparent", "tracestate", "trace_id", "payload_ref", "event_type", "fact_type", "status", "state"],
]);

/** Fields that hold a row as somebody sent it. */
const HOLDS_A_ROW = new Set(["raw"]);

/** An id that is looked for within other texts: a shorter one, or one of digits alone, is too often something else. */
function isDistinct(id: string): boolean {
  return id.length >= 6 ? /\D/.test(id) : id.length >= 4 && /\d/.test(id) && /\p{L}/u.test(id);
}

/**
 * Finds a person in texts and puts pseudonyms in their place. In JSON, at any depth, also within texts that are JSON themselves, a field that names a
 * contact is compared as a whole; in all other texts, ids that are distinct, addresses, names of two words and telephone numbers are found as
 * words. Fields that name an account, a ledger or a tenant are left as they are.
 */
export class Traces {
  /** In lower case, as they may stand in a text: one that has none of them says nothing of the person. */
  readonly mentions: readonly string[];
  readonly #ids: ReadonlyMap<string, string>;
  readonly #others: ReadonlySet<string>;
  readonly #words: RegExp;

  constructor({ ids, emails, names, phones }: Person) {
    this.#ids = new Map(ids.map(({ id, as }) => [id, as]));
    const others = [...emails, ...names, ...phones].filter((text) => text !== "");
    this.#others = new Set(others.map((text) => text.toLowerCase()));
    const words = [...[...this.#ids.keys()].filter(isDistinct), ...others].sort((one, other) => other.length - one.length);
    const any = words.length > 0 ? words.map(escaped).join("|") : "(?!)";
    this.#words = new RegExp(`(?<![\\p{L}\\p{N}])(?:${any})(?![\\p{L}\\p{N}])`, "giu");
    this.mentions = [...new Set([...this.#ids.keys(), ...others].flatMap(writtenForms))];
  }

  /** What a text becomes: that of a column, a field or a file of this name. `message_type`: of the message that it belongs to. */
  rewrite(field: string, text: string, { message_type }: { message_type?: unknown } = {}): string {
    if (NAMES_ANOTHER.has(field)) return text;
    const id = this.#ids.get(text);
    if (id !== undefined && (NAMES_A_CONTACT.has(field) || isDistinct(text) || (field === "subject" && isContacts(message_type))))
      return id;
    if (field === "item" && text.startsWith("after ")) return `after ${this.#ids.get(text.slice(6)) ?? this.#inWords(text.slice(6))}`;
    if (HOLDS_A_ROW.has(field)) return this.areIn(text) ? GONE : text;
    if (/^\s*[[{"]/.test(text)) {
      const value = parsed(text);
      if (value !== undefined) {
        const rewritten = this.#value(field, value);
        return rewritten === value ? text : JSON.stringify(rewritten);
      }
    }
    return this.#inWords(text);
  }

  /** Whether a row of a file is the person's: one of its cells is an id or an address. */
  isTheirs(cells: readonly unknown[]): boolean {
    return cells.some((cell) => typeof cell === "string" && (this.#ids.has(cell) || this.#others.has(cell.toLowerCase())));
  }

  /** The same value, or another one where something in it was meant. */
  #value(field: string, value: unknown, type?: unknown): unknown {
    if (typeof value === "string") return this.rewrite(field, value, { message_type: type });
    if (Array.isArray(value)) {
      const items = value.map((item) => this.#value(field, item, type));
      return items.some((item, index) => item !== value[index]) ? items : value;
    }
    if (typeof value !== "object" || value === null) return value;
    const own = "message_type" in value ? value.message_type : undefined;
    const entries = Object.entries(value).map(([name, inner]) => [this.#inWords(name), this.#value(name, inner, own)] as const);
    const isSame = Object.entries(value).every(([name, inner], index) => entries[index]?.[0] === name && entries[index][1] === inner);
    return isSame ? value : Object.fromEntries(entries);
  }

  #inWords(text: string): string {
    return text.replace(this.#words, (word) => this.#ids.get(word) ?? (this.#others.has(word.toLowerCase()) ? GONE : word));
  }

  /** Whether a text may say something of the person: it is worth looking at. */
  areIn(text: string): boolean {
    const lower = inLowerCase(text);
    return this.mentions.some((mention) => lower.includes(mention));
  }
}

function isContacts(type: unknown): boolean {
  return typeof type === "string" && type.startsWith("contact.");
}

/** A text as it stands in plain text, in JSON, and in JSON within JSON; in lower case as SQLite makes it. */
function writtenForms(text: string): string[] {
  const once = JSON.stringify(text).slice(1, -1);
  return [text, once, JSON.stringify(once).slice(1, -1)].map(inLowerCase);
}

function inLowerCase(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}
