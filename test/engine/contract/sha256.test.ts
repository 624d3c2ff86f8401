import { hash } from "node:crypto";
import { expect, it } from "vitest";
import { sha256 } from "../../../packages/millrace/src/contract/sha256.ts";

it("hashes texts of any length and any characters as the platform does", () => {
  for (const character of ["x", "é", "漢", "😀", "\0", "\ud800"]) {
    const texts = Array.from({ length: 600 }, (_, length) => character.repeat(length));
    expect(texts.map(sha256)).toEqual(texts.map((text) => hash("sha256", text)));
  }
});

it("answers each text independently of the text hashed before", () => {
  const [long, short] = ["a long one, of several blocks ".repeat(12), "short"];
  expect([sha256(long), sha256(short), sha256(long)]).toEqual([long, short, long].map((text) => hash("sha256", text)));
});
