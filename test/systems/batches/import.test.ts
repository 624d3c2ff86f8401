import { expect, it } from "vitest";
import { callerWith } from "../../api/client.ts";
import { completed, contactsCsv, contactsOf, problemsOf } from "./batch.ts";

it("an uploaded file becomes rows, each written once, and the batch has their number", async () => {
  const caller = await callerWith();
  const batch = await completed(caller, contactsCsv(2500));
  expect(batch).toMatchObject({ state: "complete", rows: { done: 2500, failed: 0, skipped: 0 }, error: null, findings: null });
  expect(batch.read_bytes).toBe(batch.total_bytes);
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts).toHaveLength(2500);
  expect(contacts[0]).toMatchObject({
    contact_id: "c0",
    email: "p0@example.com",
    name: "Person, 0",
    properties: { plan: "gold" },
    revision: 1,
    imported_by: batch.batch_id,
  });
  expect(await problemsOf(caller, batch.batch_id)).toEqual([]);
  const { progress } = (await caller.get(`/v1/instances/${batch.instance_id}`)).body;
  expect(progress).toMatchObject({ step: expect.stringMatching(/^take rows \[/), text: "rows", share: expect.any(Number) });
});

it("a file with every kind of invalid row is imported without those rows, and each invalid row is reported", async () => {
  const caller = await callerWith();
  const file = new TextEncoder().encode(
    [
      "\uFEFFcontact_id;email;name;properties;plan",
      "ok1;a@example.com;Ada;;gold",
      "bad-mail;not an address;;;",
      ';b@example.com;"no id";;',
      "few;c@example.com",
      'open;d@example.com;"never closed;;',
      'ok2;e@example.com;"two\nlines; and ""quotes""";"{""age"":3}";',
      "props;f@example.com;;{nonsense};",
      "deep;g@example.com;;[1];",
      "=cmd|' /C calc'!A0;h;;;",
      "\0;i@example.com;;;",
      "ok3;j@example.com;;;\r",
      "",
      `huge;k@example.com;${"x".repeat(70_000)};;`,
      `long;l@example.com;${"x".repeat(300)};;`,
      "ok4;m@example.com;;;",
    ].join("\n"),
  );
  const broken = new Uint8Array([
    ...file,
    ...new TextEncoder().encode("\nutf;n@example.com;"),
    0xff,
    ...new TextEncoder().encode(";;\nok5;o@example.com;;;"),
  ]);
  const batch = await completed(caller, broken);
  expect(batch.rows).toMatchObject({ done: 5, failed: 11, skipped: 0 });
  expect(batch.read_bytes).toBe(broken.length);
  const contacts = await contactsOf(caller.tenantId);
  expect(contacts.map(({ contact_id }) => contact_id)).toEqual(["ok1", "ok2", "ok3", "ok4", "ok5"]);
  expect(contacts[1]).toMatchObject({ name: 'two\nlines; and "quotes"', properties: { age: 3 } });
  const problems = await problemsOf(caller, batch.batch_id);
  expect(problems.map(({ line, problem }) => [line, problem])).toEqual([
    [3, expect.stringContaining("email: ")],
    [4, expect.stringContaining("contact_id: ")],
    [5, "has 2 columns instead of 5"],
    [6, expect.stringContaining("quote")],
    [9, "properties: is not JSON"],
    [10, "properties: must be a JSON object"],
    [11, expect.stringContaining("email: ")],
    [12, expect.stringContaining("NUL")],
    [15, expect.stringContaining("larger than 65536 bytes")],
    [16, expect.stringContaining("name: ")],
    [18, expect.stringContaining("UTF-8")],
  ]);
  const report = (await caller.get(`/v1/batches/${batch.batch_id}/errors`)).body;
  expect(report.split("\n")[0]).toBe("row,line,problem,raw");
  expect(report).toContain("2,3,");
  expect(report).toContain("'=cmd|");
  expect(Math.max(...problems.map(({ raw }) => raw.length))).toBeLessThanOrEqual(200);
});

it("a header is read with each delimiter, each line ending, a byte order mark, and quoted names", async () => {
  const caller = await callerWith();
  const names = ["contact_id", "email", "a;b,c;d", 'say "hi"', "plan"];
  const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
  const mustBe = (name: string) => /["\n,;]/.test(name);
  const quotings = [() => true, mustBe, ...["contact_id", "email", "plan"].map((one) => (name: string) => name === one || mustBe(name))];
  const files = [",", ";"].flatMap((delimiter) =>
    ["\n", "\r\n"].flatMap((end) =>
      ["", "\uFEFF"].flatMap((mark) =>
        quotings.map((isQuoted) => {
          const header = names.map((name) => (isQuoted(name) ? quoted(name) : name)).join(delimiter);
          return `${mark}${header}${end}${["q1", "a@x.org", "1", "2", "gold"].join(delimiter)}${end}`;
        }),
      ),
    ),
  );
  expect(files).toHaveLength(40);
  const batches = await Promise.all(files.map((file) => completed(caller, file)));
  expect(files.filter((_, index) => batches[index].rows.done !== 1)).toEqual([]);
  const [contact, ...others] = await contactsOf(caller.tenantId);
  expect(others).toEqual([]);
  expect(contact).toMatchObject({ revision: 40, properties: { "a;b,c;d": "1", 'say "hi"': "2", plan: "gold" } });
});

it("a header is read with the delimiter that gives the required columns, for any content of its other names", async () => {
  const caller = await callerWith();
  await completed(caller, "contact_id,email,a;b;c;d;e\nw1,a@x.org,1\n");
  await completed(caller, " contact_id ; email;a,b,c,d,e\nw2;a@x.org;1\n");
  expect((await contactsOf(caller.tenantId)).map(({ properties }) => properties)).toEqual([{ "a;b;c;d;e": "1" }, { "a,b,c,d,e": "1" }]);
});

it("a row that contains a property both in `properties` and in a column is reported", async () => {
  const caller = await callerWith();
  const rows = [`p1,a@x.org,"{""plan"":""x""}",gold`, `p2,b@x.org,"{""plan"":""x""}",`, `p3,c@x.org,"{""age"":3}",gold`];
  const { batch_id: id } = await completed(caller, `contact_id,email,properties,plan\n${rows.join("\n")}\n`);
  const [problem, ...others] = await problemsOf(caller, id);
  expect(others).toEqual([]);
  expect(problem).toMatchObject({ line: 2, problem: expect.stringMatching(/^properties: plan is also a separate column/) });
  const kept = (await contactsOf(caller.tenantId)).map(({ properties }) => properties);
  expect(kept).toEqual([{ plan: "x" }, { age: 3, plan: "gold" }]);
});

it("JSON Lines are imported as rows, and invalid lines are reported", async () => {
  const caller = await callerWith();
  const lines = [
    '{"contact_id":"a","email":"a@example.com","properties":{"age":3,"vip":true}}',
    "{nonsense}",
    "[1,2]",
    "",
    '{"contact_id":"b","email":"b@example.com","unknown":1}',
    '{"contact_id":"c","email":"c@example.com","name":"\\u0000"}',
    '{"contact_id":"d","email":"d@example.com","name":"\\ud83d"}',
    `{"contact_id":"e","email":"e@example.com","properties":${'{"a":'.repeat(5000)}1${"}".repeat(5000)}}`,
    '{"contact_id":"f","email":"f@example.com","properties":{"__proto__":1}}',
    '{"contact_id":"g","email":"g@example.com","properties":{"score":1e400}}',
    '{"contact_id":"z","email":"z@example.com"}',
  ];
  const batch = await completed(caller, lines.join("\r\n"), { type: "application/x-ndjson" });
  expect(batch.rows).toMatchObject({ done: 2, failed: 8 });
  expect(await contactsOf(caller.tenantId)).toMatchObject([{ contact_id: "a", properties: { age: 3, vip: true } }, { contact_id: "z" }]);
  const problems = await problemsOf(caller, batch.batch_id);
  expect(problems.map(({ line }) => line)).toEqual([2, 3, 5, 6, 7, 8, 9, 10]);
  expect(problems.map(({ problem }) => problem)).toMatchObject([
    "is not JSON",
    "must be of type object, not array",
    expect.stringContaining("unknown"),
    "name: contains the character NUL: remove it",
    expect.stringContaining("surrogate"),
    expect.stringContaining("nested deeper"),
    expect.stringContaining("not allowed"),
    expect.stringContaining("properties.score: Infinity, which is no number in JSON"),
  ]);
});

it("a file without rows is a complete batch", async () => {
  const caller = await callerWith();
  expect(await completed(caller, "contact_id,email")).toMatchObject({ state: "complete", rows: { done: 0, failed: 0 } });
  expect(await completed(caller, "", { type: "application/x-ndjson" })).toMatchObject({ state: "complete", rows: { done: 0 } });
});

it("the last of two rows about one contact applies, and both are counted", async () => {
  const caller = await callerWith();
  const batch = await completed(caller, "contact_id,email,name\nc,a@example.com,Old\nc,b@example.com,New\n");
  expect(batch.rows).toMatchObject({ done: 2, failed: 0 });
  expect(await contactsOf(caller.tenantId)).toMatchObject([{ name: "New", email: "b@example.com", revision: 2 }]);
});
