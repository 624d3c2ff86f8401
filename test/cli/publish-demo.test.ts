import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the demo of publishing shows a yes, a no and a silence, an article taken down through a kill and put up again, and proves it", async () => {
  const out = await tellDemo(["publish"]);
  expect(out).toMatch(/published +green tea +revision 2 +approved by local: “People ask for it\.”/);
  expect(out).toMatch(/rejected +tea bags +revision 2 +rejected by local: “We do not sell them\.”/);
  expect(out).toMatch(/rejected +tea eggs +revision 2 +rejected, because nobody answered in time/);
  expect(out).toMatch(/200 {2}\S+\/pages\/acme\/tearoom\/green-tea-[0-9a-f]{6}\n.*200 .*one article\n.*200 .*feed\.xml {2}one article/);
  expect(out).toMatch(/404 {2}\S+\/pages\/acme\/tearoom\/green-tea-[0-9a-f]{6}\n.*200 .*0 articles\n.*200 .*feed\.xml {2}0 articles/);
  expect(out).toContain("Its revision went from 2 to 3 to 4");
  expect(out).toContain("✓ Each page was put up once per generation and taken down once");
});
