import { describe, expect, it } from "vitest";
import { Traces } from "../../../src/systems/contacts/traces.ts";

const AS = "forgotten-0";
const ada = new Traces({
  ids: [{ id: "ada-1815", as: AS }],
  emails: ["ada@ex.com"],
  names: ["Ann Lee", "Loé Bär", "Jo Groß", 'Zoe "Zee" Zork'],
  phones: ["+46 70 123 45 67"],
});
const seven = new Traces({ ids: [{ id: "7", as: AS }], emails: ["s@s.test"], names: [], phones: ["+44 555"] });

/** The rewritten payload of a fact: in its ledger, and identical in its row. */
function payloadOf(traces: Traces, payload: object, type = "outcome"): unknown {
  const fact = { fact_id: "f", entity: "order/1", type, occurred_at: "2026-10-01T09:30:00Z", payload };
  const { fact_id: _, entity: __, ...body } = fact;
  const [kept, row] = [fact, body].map((one) => JSON.parse(traces.rewrite("body", JSON.stringify(one))).payload);
  expect(row).toEqual(kept);
  return kept;
}

describe("An erased person is found as a word in a text", () => {
  it.each([
    ["ada-1815 called.", `${AS} called.`],
    ["by ada-1815.", `by ${AS}.`],
    ["- ada-1815 -", `- ${AS} -`],
    ["lead/ada-1815", `lead/${AS}`],
    ["acme/ada-1815/first", `acme/${AS}/first`],
    ["mailto:ada@ex.com?subject=x", "mailto:[forgotten]?subject=x"],
    ["wrote <ADA@EX.com>, then", "wrote <[forgotten]>, then"],
    ["Sorry...Ann Lee!", "Sorry...[forgotten]!"],
    ["ANN LEE's", "[forgotten]'s"],
    ["+46 70 123 45 67; +46701234567; 46701234567", "[forgotten]; +[forgotten]; [forgotten]"],
  ])("an erased person is found as a word in a text: %s", (text, becomes) => {
    expect(ada.areIn(text)).toBe(true);
    expect(ada.rewrite("note", text)).toBe(becomes);
  });

  it.each([
    ...["ada-1815-jr", "pre.ada-1815", "ada-1815_2", "xada-1815", "ada-1815@ex.org", "ada-1815-jr/s4", "https://k.test/ada-1815-b"],
    ...["mary-ada@ex.com", "ada@ex.com.au", "ada@ex.community", "x+ada@ex.com", "Mary-Ann Lee-Smith", "Ann Leeds", "+46 70 123 45 678"],
    ...["ADA-1815"],
  ])("a word that only contains the name, such as %s, is another person", (text) => {
    expect(ada.rewrite("note", text)).toBe(text);
  });
});

describe("An id in a field that names a contact is matched as the whole text", () => {
  it.each(["contact_id", "contactId", "contact"])("the id of an erased contact is matched as the whole text of a field: %s", (field) => {
    const said = (id: string) => payloadOf(ada, { [field]: id });
    expect(said("ada-1815")).toEqual({ [field]: AS });
    for (const other of ["ada-1815-jr", "pre.ada-1815", "acme/ada-1815"]) expect(said(other)).toEqual({ [field]: other });
    expect(said("Ann Lee <ada@ex.com>")).toEqual({ [field]: "[forgotten] <[forgotten]>" });
  });

  it("the fields from and into name contacts in a merge; in another fact their values are ordinary words, as in after, next and key", () => {
    expect(payloadOf(seven, { from: "7", into: "70" }, "contact_merged")).toEqual({ from: AS, into: "70" });
    const payload = { after: "7", from: "7", into: "7", next: "7", key: "7", contact: "70" };
    expect(payloadOf(seven, payload)).toEqual(payload);
    expect(JSON.parse(seven.rewrite("output", '{"next":"7","after":"70"}'))).toEqual({ next: AS, after: "70" });
  });

  it("the subject of a contact's own message names the contact", () => {
    const said = (subject: string, message_type: string) =>
      JSON.parse(ada.rewrite("envelope", JSON.stringify({ message_type, subject, tenant_id: "ada-1815" })));
    expect(said("ada-1815", "contact.sync")).toMatchObject({ subject: AS, tenant_id: "ada-1815" });
    expect(said("ada-1815-jr", "contact.sync")).toMatchObject({ subject: "ada-1815-jr" });
    expect(said("order/ada-1815", "fact.outcome")).toMatchObject({ subject: `order/${AS}` });
  });
});

it("amounts whose names become equal by an erasure get numbers", () => {
  const shares = { "[forgotten] 2": 1, "ada@ex.com": 700, "Ann Lee": 100, rest: 5 };
  expect(payloadOf(ada, { shares })).toEqual({ shares: { "[forgotten] 2": 1, "[forgotten]": 700, "[forgotten] 3": 100, rest: 5 } });
});

it("a fact's payload is rewritten for any field names, except the names of accounts that its sums use", () => {
  const names = ["source", "status", "state", "kind", "type", "brand", "actor", "queue"];
  const payload = Object.fromEntries(names.map((name) => [name, `said by Ann Lee, ${name}`]));
  expect(JSON.stringify(payloadOf(ada, { ...payload, deep: payload }))).not.toContain("Ann Lee");
  const places = { account: "ada-1815", partner: "Ann Lee" };
  expect(payloadOf(ada, places)).toEqual(places);
  expect(ada.rewriteProperty("partner", "Ann Lee")).toBe("[forgotten]");
});

it("the envelope of a fact and of a message remains, also when a contact's id equals one of its times, words or references", () => {
  const [at, trace] = ["2026-03-04T05:06:07Z", "4bf92f3577b34da6a3ce929d0e0e4736"];
  const ids = [at, trace, "outcome", "fact.recorded", "event"].map((id) => ({ id, as: AS }));
  const of = new Traces({ ids, emails: [], names: [], phones: [] });
  const fact = { fact_id: "f", entity: "deal/1", type: "outcome", occurred_at: at, recorded_at: at, trace_id: trace, sequence: 1 };
  const frame = { message_type: "fact.recorded", kind: "event", created_at: at, must_end_by: at };
  const said = { contact: at, note: `at ${at}` };
  const rewritten = JSON.parse(of.rewrite("envelope", JSON.stringify({ ...frame, payload_inline: { ...fact, payload: said } })));
  const becomes = { contact: AS, note: `at ${AS}` };
  expect(rewritten).toEqual({ ...frame, payload_inline: { ...fact, payload: becomes } });
  expect(JSON.parse(of.rewrite("body", JSON.stringify({ ...fact, payload: said })))).toEqual({ ...fact, payload: becomes });
});

it("the engine's own words outside a message's payload remain, and all other text is rewritten", () => {
  const ours = { message_type: "contact.sync", kind: "command", type: "ada.lovelace", payload_ref: "r2://payloads/ada-1815/x" };
  const trace = { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`, tracestate: "crm=ada-1815" };
  const theirs = { source: "schedule:ada-1815", actor: "Ann Lee", status: { mail: "ada@ex.com" }, state: ["ada-1815"] };
  const { tracestate: _, ...left } = { ...ours, ...trace, source: `schedule:${AS}`, actor: "[forgotten]" };
  const becomes = { ...left, status: { mail: "[forgotten]" }, state: [AS] };
  expect(JSON.parse(ada.rewrite("body", JSON.stringify({ ...ours, ...trace, ...theirs })))).toEqual(becomes);
  const others = { ...ours, ...trace, tracestate: "crm=ada-1815-jr" };
  expect(JSON.parse(ada.rewrite("body", JSON.stringify(others)))).toEqual(others);
  const numbered = { message_type: "contact.sync", payload_inline: { contact_id: 7, count: 7 } };
  expect(JSON.parse(seven.rewrite("body", JSON.stringify(numbered)))).toEqual({
    ...numbered,
    payload_inline: { contact_id: AS, count: 7 },
  });
});

it("an engine error about an invalid field is rewritten, name by name", () => {
  for (const [said, becomes] of [
    ["properties.ada@ex.com: must be a text", "properties.[forgotten]: must be a text"],
    ["facts.0.payload.shares.Ann Lee.cents: is missing", "facts.0.payload.shares.[forgotten].cents: is missing"],
    ["payload.ada-1815", `payload.${AS}`],
    ["properties.mary-ada@ex.com: no", "properties.mary-ada@ex.com: no"],
    ["payload.ada-1815-jr: no", "payload.ada-1815-jr: no"],
  ] as const)
    expect(ada.rewrite("problem", said)).toBe(becomes);
});

it("a webhook's content is rewritten as its fact is, with its type one level above", () => {
  const body = (payload: object) => ({ type: "outcome", timestamp: "2026-11-23T00:00:00Z", data: { recorded_at: "2026", payload } });
  const rewritten = (payload: object) => JSON.parse(ada.rewrite("body", JSON.stringify(body(payload))));
  expect(rewritten({ brand: "Ann Lee", tenant_id: "ada-1815", account: "ada-1815" })).toEqual(
    body({ brand: "[forgotten]", tenant_id: AS, account: "ada-1815" }),
  );
  expect(rewritten({ key: "7", from: "7" })).toEqual(body({ key: "7", from: "7" }));
});

it("a refused row belongs to the person by a word or a whole cell, and not by a digit or a part of a word", () => {
  const raw = (traces: Traces, row: string) => {
    const line = JSON.stringify({ row: 7, problem: "p", raw: row });
    // A file that does not contain the person is not read.
    return JSON.parse(traces.areIn(line) ? traces.rewrite("line", line) : line);
  };
  for (const row of ["70,bad,Seventy", "c-9,bad,call me on 0207 1"]) expect(raw(seven, row)).toEqual({ row: 7, problem: "p", raw: row });
  for (const row of ["7,bad,Sid", 'x,"7",Sid', '{"contact_id":"7"}']) expect(raw(seven, row).raw).toBe("[forgotten]");
  expect(raw(ada, "ada-1815-jr,bad,Jr").raw).toBe("ada-1815-jr,bad,Jr");
  for (const row of ["fam,bad,Ann Lee", '{"name":"Lo\\u00e9 B\\u00e4r"}', '{"mail":"ada\\u0040ex.com"}', 'k,bad,"Zoe ""Zee"" Zork"'])
    expect(raw(ada, row).raw, row).toBe("[forgotten]");
});

describe("A name is found in any letter case", () => {
  it.each(["JO GROSS", "LOÉ BÄR", "loé bär", "Loé BÄR", "LOÉ Bär", "Loé Bär".normalize("NFD"), "LOÉ BÄR".normalize("NFD")])(
    "a name is found in any letter case: %s",
    (name) => {
      // Compared as SQLite does: its `lower` supports ASCII only.
      const lower = name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
      expect(ada.mentions.some((mention) => lower.includes(mention))).toBe(true);
      expect(payloadOf(ada, { note: `${name} called` })).toEqual({ note: "[forgotten] called" });
    },
  );
});

it("a name is found in Turkish letters and with a capital ß", () => {
  const [turk, german] = ["İrem Şahin", "Jörg Strauß"].map((name) => new Traces({ ids: [], emails: [], names: [name], phones: [] }));
  for (const [who, names] of [
    [turk, ["İREM ŞAHİN", "irem şahin", "İrem şahin"]],
    [german, ["JÖRG STRAUẞ", "JÖRG STRAUSS", "jörg strauß"]],
  ] as const)
    for (const name of names) {
      expect(who?.areIn(`${name} called`), name).toBe(true);
      expect(who?.rewriteProperty("note", `${name} called`)).toBe("[forgotten] called");
    }
});

it("an accent is part of its letter: a name without it is another name", () => {
  const le = new Traces({ ids: [], emails: ["ada@ex.com"], names: ["Ann Le"], phones: [] });
  for (const text of ["Ann Lé".normalize("NFD"), "ada@ex.com\u0301"]) expect(le.rewriteProperty("note", text)).toBe(text);
});

it("a person is found in machine-readable text: JSON within a text, quoted cells, URLs", () => {
  const said = [
    'see {"x":"hi\\nada@ex.com"}',
    'see {"x":"Zoe \\"Zee\\" Zork"}',
    'k,"Zoe ""Zee"" Zork"',
    "https://x.test/?e=ada%40ex.com&n=Ann%20Lee",
    "https://x.test/?n=Ann+Lee&e=%3Dada@ex.com",
    'then {"n":"Lo\\u00e9 B\\u00e4r"}',
  ];
  for (const text of said) {
    const [note] = [payloadOf(ada, { note: text })].map((payload) => (payload as { note: string }).note);
    expect(note, text).toContain("[forgotten]");
    expect(note, text).not.toMatch(/ada(@|%40)|Ann|Zork|B(ä|\\u00e4)r/);
  }
});

it("an id and a name with a slash are found in the key of a step", () => {
  const traces = new Traces({ ids: [{ id: "crm/ada-1815", as: AS }], emails: [], names: ["Ann Lee c/o Bo"], phones: [] });
  const said = "the step \"sync [eu/crm%2fada-1815]\" failed, and 'tell [Ann Lee c%2fo Bo]'";
  expect(traces.areIn(said)).toBe(true);
  expect(traces.rewrite("error", said)).toBe(`the step "sync [eu/${AS}]" failed, and 'tell [[forgotten]]'`);
});

it("a telephone number is found as a number in every spelling, and no other number is changed", () => {
  const note = '{"n":12345678901234567890,"m":1.50,"tel":46701234567,"value_cents":46701234567,"by":"ada@ex.com"}';
  const becomes = '{"n":12345678901234567890,"m":1.50,"tel":"[forgotten]","value_cents":46701234567,"by":"[forgotten]"}';
  expect(ada.rewriteProperty("note", note)).toBe(becomes);
  expect(seven.rewriteProperty("note", '{"n":7,"m":44555,"by":"s@s.test"}')).toBe('{"n":7,"m":44555,"by":"[forgotten]"}');
});
