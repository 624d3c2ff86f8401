import { sensitive } from "millrace";
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { hiding } from "../../../packages/millrace/src/contract/hide.ts";
import { holdsMarks, REDACTED, redact, restored } from "../../../packages/millrace/src/contract/redact.ts";

const email = sensitive(z.email());
type Tree = { email: string; children: Tree[] };
const tree: z.ZodType<Tree> = z.lazy(() => z.object({ email, children: z.array(tree) }));

describe("Redaction", () => {
  it.each<[string, z.ZodType, unknown, unknown]>([
    ["a field", z.object({ id: z.string(), email }), { id: "1", email: "ada@x" }, { id: "1", email: REDACTED }],
    [
      "an optional, a nullable and a missing field",
      z.object({ a: email.optional(), b: email.nullable(), c: email.optional() }),
      { a: "x", b: null },
      { a: REDACTED, b: null },
    ],
    ["a marked field with further checks", z.object({ a: sensitive(z.string()).min(1).max(9) }), { a: "x" }, { a: REDACTED }],
    ["a whole object", z.object({ who: sensitive(z.object({ a: z.string() })) }), { who: { a: "x" } }, { who: REDACTED }],
    [
      "marked fields of array items",
      z.object({ to: z.array(z.object({ email, n: z.int() })) }),
      { to: [{ email: "a", n: 1 }] },
      { to: [{ email: REDACTED, n: 1 }] },
    ],
    ["a pair", z.tuple([z.string(), email]), ["a", "b"], ["a", REDACTED]],
    ["a record", z.record(z.string(), z.object({ email })), { k: { email: "a" } }, { k: { email: REDACTED } }],
    ["a record with sensitive keys", z.object({ r: z.record(email, z.int()) }), { r: { "ada@x": 1 } }, { r: REDACTED }],
    [
      "a union by its discriminator",
      z.discriminatedUnion("k", [
        z.object({ k: z.literal("a"), v: z.string() }),
        z.object({ k: z.literal("b"), v: sensitive(z.string()) }),
      ]),
      { k: "a", v: "shown" },
      { k: "a", v: "shown" },
    ],
    [
      "a value that matches no alternative",
      z.object({ u: z.union([z.object({ n: z.int() }), z.object({ m: sensitive(z.string()) })]) }),
      { u: { m: 7 } },
      { u: REDACTED },
    ],
    [
      "both parts of an intersection",
      z.intersection(z.object({ a: z.string() }), z.object({ email })),
      { a: "1", email: "x" },
      { a: "1", email: REDACTED },
    ],
    [
      "a recursive schema",
      tree,
      { email: "a", children: [{ email: "b", children: [] }] },
      { email: REDACTED, children: [{ email: REDACTED, children: [] }] },
    ],
    ["a misspelled name of a marked field", z.object({ id: z.string(), email }), { id: "1", emial: "ada@x" }, { id: "1", emial: REDACTED }],
    ["a text in place of an object", z.object({ who: z.object({ email }) }), { who: '{"email":"ada@x"}' }, { who: REDACTED }],
    ["a list instead of an object", z.object({ email }), ["ada@x"], REDACTED],
    ["a schema without a mark", z.object({ a: z.string() }), { a: "x", b: "y" }, { a: "x", b: "y" }],
    [
      "a transformed value",
      z.object({ email: sensitive(z.string()).transform((text) => text.trim()) }),
      { email: "a" },
      { email: REDACTED },
    ],
  ])("the redaction of %s hides exactly the marked parts", (_what, schema, value, shown) => {
    expect(redact(schema, value)).toEqual(shown);
  });

  it("the redaction of a sensitive record also hides the names of its fields", () => {
    const withheld: unknown[] = [];
    const tags = sensitive(z.record(z.string(), z.object({ street: z.string() })).optional());
    redact(z.object({ tags }), { tags: { maiden: { street: "Elm" } } }, (one) => void withheld.push(one));
    expect(withheld).toEqual([{ maiden: { street: "Elm" } }, "maiden"]);
  });

  it("a value is returned unchanged when its schema marks no sensitive field", () => {
    const value = { a: { b: 1 } };
    expect(redact(z.object({ a: z.object({ b: z.int() }) }), value)).toBe(value);
    expect([holdsMarks(tree), holdsMarks(z.object({ a: z.string() }))]).toEqual([true, false]);
  });
});

describe("Redacted values", () => {
  it("a redacted value is hidden in every text that contains it: as JSON, in URLs, in other encodings and in cut texts", () => {
    const hide = hiding(['ada "x"@ex.com', { n: 123_456_789, no: 12, of: "abc" }]);
    expect(
      hide({
        to: 'ADA "x"@ex.com',
        said: 'no such: ada "x"@ex.com!',
        json: JSON.stringify({ a: 'ada "x"@ex.com' }),
        n: 123_456_789,
        no: 12,
      }),
    ).toEqual({
      to: REDACTED,
      said: `no such: ${REDACTED}!`,
      json: `{"a":"${REDACTED}"}`,
      n: REDACTED,
      no: 12,
    });
    expect(hide(`/find?q=${encodeURIComponent('ada "x"@ex.com')}`)).toBe(`/find?q=${REDACTED}`);
    const odd = "Zoë O'Hara <z+o@x>";
    const spelled = hiding([odd]);
    for (const one of [
      new URLSearchParams({ q: odd }).toString().slice(2),
      '"Zo\\u00eb O\'Hara <z+o@x>"'.slice(1, -1),
      "Zoë O&#39;Hara &lt;z+o@x&gt;",
      "Zoë O&#x27;Hara &lt;z+o@x&gt;",
      odd.normalize("NFD"),
    ])
      expect(spelled(`It says ${one}.`), one).toBe(`It says ${REDACTED}.`);
    expect(hiding(["de/Ada Ex"])('The step "mail [eu/de%2fAda Ex]" failed.')).toBe(`The step "mail [eu/${REDACTED}]" failed.`);
    expect(hide({ 'ada "x"@ex.com': "abc" })).toEqual({ [REDACTED]: "abc" });
    expect(hide(`${"x".repeat(4000)}ada "x"@e`)).toBe(`${"x".repeat(4000)}${REDACTED}`);
    expect([hide(null), hide(undefined), hide(7)]).toEqual([null, undefined, 7]);
  });

  it.each(["ab ", "ы", "数", "𝒜 "])(
    "a redacted value of many repetitions of %j is hidden when it is complete, in parts, and cut",
    (unit) => {
      const long = `Longsecret ${unit.repeat(12_000 / unit.length)}end`;
      const hide = hiding([long, "short one"]);
      expect(hide({ said: `It says ${long}!`, form: new URLSearchParams({ q: long }).toString(), json: JSON.stringify(long) })).toEqual({
        said: `It says ${REDACTED}!`,
        form: `q=${REDACTED}`,
        json: `"${REDACTED}"`,
      });
      expect(hide(`a short one, and ${long.slice(0, 3000)}`)).toBe(`a ${REDACTED}, and ${REDACTED}`);
      expect(hiding([long.repeat(9)])({ any: 1 })).toBe(REDACTED);
    },
  );

  it("a caller who sends back the redaction marker keeps the stored value, and only at the place of that marker", () => {
    const stored = { a: "1", who: { email: "ada@x", age: 3 }, list: ["p", "q"] };
    const shown = { a: "1", who: { email: REDACTED, age: 3 }, list: [REDACTED, REDACTED] };
    expect(restored({ ...shown, a: "2" }, shown, stored)).toEqual({ ...stored, a: "2" });
    expect(restored({ a: REDACTED, list: [REDACTED], who: { email: "new@x" } }, shown, stored)).toEqual({
      a: REDACTED,
      list: ["p"],
      who: { email: "new@x" },
    });
  });
});
