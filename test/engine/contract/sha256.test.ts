import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { sha256 } from "../../../packages/millrace/src/contract/ids.ts";

it("the engine's SHA-256 of any text equals the platform's", () => {
  for (const character of ["x", "é", "漢", "😀", "\0", "\ud800"]) {
    const texts = Array.from({ length: 600 }, (_, length) => character.repeat(length));
    expect(texts.map(sha256)).toEqual(texts.map((text) => hash("sha256", text)));
  }
});

it("the SHA-256 of a text is independent of the text that was hashed before", () => {
  const [long, short] = ["a long text of several blocks ".repeat(12), "short"];
  expect([sha256(long), sha256(short), sha256(long)]).toEqual([long, short, long].map((text) => hash("sha256", text)));
});
