import { expect, it } from "vitest";
import { causeId, normalized } from "../../../packages/millrace/src/contract/cause.ts";

it.each([
  ["Order 4711 has 3 parts", "Order 17 has 12 parts", "Order # has # parts"],
  ["pages answered 503 after 1,200.5 ms", "pages answered 500 after 9 ms", "pages answered # after # ms"],
  ['"Anna\'s order" is not known', '"" is not known', '"…" is not known'],
  ["no such column: 'a b' at offset 12", "no such column: 'c' at offset 7", 'no such column: "…" at offset #'],
  ["`cycle` is meant, or `brand`", "`a` is meant, or `b`", '"…" is meant, or "…"'],
  ["„Zürich“ or «Genève»", "„a“ or «b»", '"…" or "…"'],
  ["write to ada@example.com now", "write to grace.h@mail.example.org now", "write to …@… now"],
  ["instance 3f2504e0-4f89-41d3-9a0c-0305e82c3301 is gone", "instance 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is gone", "instance # is gone"],
  ["order-01ARZ3NDEKTSV4RRFFQ69G5FAV", "order-01BX5ZZKBKACTAV9WEVGEMMVRZ", "order-#"],
  ["since 2026-10-01T09:30:00.123Z", "since 2026-11-02T00:00:00Z", "since #"],
  ["ids 1, 2, 3 are wrong", "ids 4 are wrong", "ids # are wrong"],
  ['keys "a", "b" are taken', 'keys "c" are taken', 'keys "…" are taken'],
  [
    "POST https://u:p@api.example.com:8443/v1/orders/4711/lines?token=abc failed",
    "POST https://api.example.com/v1/orders/X-9/lines failed",
    "POST https://api.example.com/v#/orders/…/lines failed",
  ],
  ["two   lines\n of it", "two lines of  it", "two lines of it"],
])("the error messages %j and %j have the same cause id", (one, other, both) => {
  expect([normalized(one), normalized(other)]).toEqual([both, both]);
});

it.each([
  ["The upstream doesn't answer", "The upstream doesn't care"],
  ["Rate limited", "Not found"],
])("the error messages %j and %j have different cause ids", (one, other) => {
  expect(normalized(one)).not.toBe(normalized(other));
});

it("the normalized message of an error's cause is short and computed quickly for any message", () => {
  for (const hostile of [
    "'".repeat(1e6),
    '"a'.repeat(5e5),
    "a@".repeat(5e5),
    `https://${"/".repeat(1e6)}`,
    "1-".repeat(5e5),
    "#,".repeat(5e5),
  ]) {
    const began = performance.now();
    expect(normalized(hostile).length).toBeLessThanOrEqual(200);
    expect(performance.now() - began).toBeLessThan(1000);
  }
  expect(normalized(`${"x".repeat(199)}😀${"y".repeat(100)}`).isWellFormed()).toBe(true);
});

it("the cause id of an error does not depend on the item of a step.map", () => {
  const cause = { place: "publish", step: "put page [a]", code: "upstream_refused", message: "answered 503" };
  const id = causeId(cause);
  expect(id).toMatch(/^[0-9a-f]{16}$/);
  expect(causeId({ ...cause, step: "put page [b]", message: "answered 500" })).toBe(id);
  for (const other of [{ place: "other" }, { step: "tell" }, { code: "retry_after" }, { message: "hung up" }, { messageType: "a.b" }])
    expect(causeId({ ...cause, ...other })).not.toBe(id);
});
