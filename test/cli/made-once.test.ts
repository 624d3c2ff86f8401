import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { madeOnce } from "../../packages/millrace/cli/local/made-once.ts";
import { emptyFolder } from "./folder.ts";

/** Files, and a builder that counts its builds. */
function maker() {
  const from = emptyFolder();
  writeFileSync(join(from, "file"), "as it is");
  let times = 0;
  const make = async (folder: string) => {
    times++;
    await new Promise(setImmediate);
    writeFileSync(join(folder, "what"), readFileSync(join(from, "file")));
  };
  const made = async () => {
    const folder = await madeOnce("test", [from], make);
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return readFileSync(join(folder, "what"), "utf8");
  };
  return { from, made, times: () => times };
}

it("two concurrent requests for the same build get one folder, which is built once", async () => {
  const { made, times } = maker();
  expect(await Promise.all([made(), made()])).toEqual(["as it is", "as it is"]);
  expect(times()).toBe(1);
});

it("a folder is built again after a change of a source, and not after a tool has stored other files next to the sources", async () => {
  const { from, made, times } = maker();
  await made();
  mkdirSync(join(from, ".wrangler/tmp"), { recursive: true });
  await made();
  expect(times()).toBe(1);
  writeFileSync(join(from, "file"), "the current content");
  expect(await made()).toBe("the current content");
  expect(times()).toBe(2);
});
