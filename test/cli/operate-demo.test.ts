import { expect, it } from "vitest";
import type { AuditRow } from "../../packages/millrace/cli/demo/operate/api.ts";
import { auditDiffers, sentence } from "../../packages/millrace/cli/demo/operate/audit.ts";
import { differences } from "../../packages/millrace/cli/demo/operate/book.ts";
import type { Entry, Kind } from "../../packages/millrace/cli/demo/operate/outside.ts";
import { tellDemo } from "./run-demo.ts";

it("the demo of operating shows twenty failures as one cause, one retried and then the rest, a cancel, a doubt, dead letters of two causes, and the audit", async () => {
  const out = await tellDemo(["operate"]);
  expect(out).toContain("20 instances are errored. Outside, 20 reservations were made, and 20 bookings refused.");
  expect(out).toContain("20 × ship-order, “book courier”, not_retryable: The courier answered #: the account's key has expired.");
  expect(out).toMatch(/order-\d+ at “book courier”, attempt 1, upstream 403: The courier answered 403/);
  expect(out).toContain("from “book courier”: “reserve stock” kept, “book courier” runs.");
  expect(out).toContain("19 match; in stages of 1, 10, 8.");
  expect(out).toMatch(/ {2}19 done +█{19} 0 left\n {2}✓ complete: 19 of 19 done, 0 failed, 0 skipped\./);
  expect(out).toMatch(
    /“reserve stock” undone\. .*\n {2}It is terminated, its undo done\. The warehouse has written down reservation-\d+, then release-\d+\./,
  );
  expect(out).toMatch(/The sender's book has it, as mail-\d+\. Confirmed: order-22 is complete\./);
  expect(out).toMatch(
    /a dead letter, found by its idempotency_key: .*\n(.*\n)+ {2}refused: payload\.pieces .*\n {2}starts: .*\n {2}Replayed: order-23 is complete\./,
  );
  expect(out).toMatch(/local retried 19 orders by it, a row each: status errored → running\. “The courier's key is renewed\.”/);
  expect(out).toMatch(/local cancelled order-21: status waiting → running\. “The customer has called it off\.”/);
  expect(out).toMatch(/3 × parcel\.returned, unknown_message_type: .*/);
  expect(out).toMatch(/1 × order\.ship, invalid_payload: .*pieces/);
  expect(out).toContain("complete: 3 given up. The other cause is an order's: that one is wanted.");
  expect(out).toMatch(/local gave up 3 messages by it, a row each: state open → skipped\. /);
  expect(out).toContain("✓ 28 rows: every action has one, and no dry run.");
  expect(out).toMatch(
    /reservations +23 +of 23 orders +at most 1 of one order\n +releases +1 +of order-21 .*\n +bookings +22 .*\n +mails +22 /,
  );
  expect(out).toContain("✓ 20 failures were one cause, and every order was dealt with once");
});

const numbered = (count: number) => Array.from({ length: count }, (_, at) => `order-${at + 1}`);
const entry = (order: string, kind: Kind): Entry => ({ id: `${kind} ${order}`, kind, order });
/** What those outside have written down when all has gone well. */
const book: Entry[] = [
  ...[...numbered(20), "order-22", "order-23"].flatMap((order) => [
    entry(order, "reservations"),
    entry(order, "bookings"),
    entry(order, "mails"),
  ]),
  ...[entry("order-21", "reservations"), entry("order-21", "releases")],
];

it("the demo of operating has no complaint of a book that has each thing once", () => {
  expect(differences(book, numbered(20))).toEqual([]);
});

it.each([
  ["a mail that went out twice", [...book, entry("order-22", "mails")], "Of order-22 there are 2 mails instead of 1."],
  ["an order that was never booked", book.filter(({ id }) => id !== "bookings order-7"), "Of order-7 there are 0 bookings instead of 1."],
  ["stock that stays reserved", book.filter(({ kind }) => kind !== "releases"), "Of order-21 there are 0 releases instead of 1."],
  ["an order that nobody made", [...book, entry("order-24", "mails")], "Of order-24 there are 1 mails instead of 0."],
])("the demo of operating complains of %s", (_, had, complaint) => {
  expect(differences(had, numbered(20))).toEqual([complaint]);
});

it("the demo of operating complains of a booking that was tried more often than it had to be", () => {
  const refused = [...numbered(20), "order-1"];
  expect(differences(book, refused)).toEqual(["The courier refused 21 bookings instead of one of each of 20 orders."]);
});

const row = (verb: string, bulk?: string, target = verb === "bulk" ? "b" : "i"): AuditRow => ({
  ...{ id: "a", actor: "ada", token_id: "t", scope: "operate", verb: verb as AuditRow["verb"], target, about: null },
  ...{ instance_id: "i", reason: "mended", detail: bulk === undefined ? null : { bulk }, result: "applied", error: null },
  ...{ before: { status: "errored", run: 1 }, after: { status: "running", run: 2 } },
  ...{ at: "2026-11-25T08:30:00.000Z", applied_at: "2026-11-25T08:30:00.100Z" },
});
const audit = [
  ...["retry", "bulk", "cancel", "confirm", "replay"].map((verb) => row(verb)),
  row("bulk", undefined, "letters"),
  ...numbered(3).map(() => row("skip", "letters")),
  ...numbered(19).map(() => row("retry", "b")),
];

it("a row of the audit is read out as who, what, from where to where, and why", () => {
  expect(sentence(row("retry"), "order-7")).toBe("08:30:00 ada retried order-7: status errored → running. “mended”");
});

it("the demo of operating complains of an audit that lacks a row, has one too many, or does not say what one has changed", () => {
  expect(auditDiffers(audit)).toEqual([]);
  expect(auditDiffers(audit.slice(0, -1))).toEqual(["The audit has 18 of “retry in bulk” instead of 19."]);
  expect(auditDiffers([...audit, row("skip")])).toEqual(["The audit has 1 of “skip alone” instead of 0."]);
  expect(auditDiffers(audit.map((one) => (one.verb === "cancel" ? { ...one, after: null } : one)))).toEqual([
    "Of cancel the audit does not say what it changed.",
  ]);
  expect(auditDiffers([...audit.slice(0, -1), row("retry", "another")])).toEqual(["Rows of another bulk action: 1."]);
});
