import { expect, it } from "vitest";
import { tellDemo } from "./run-demo.ts";

it("the CRM demo syncs contacts through a kill of the whole engine, takes a person's change, echoes nothing, forgets a person whom no file brings back, moves to another account on an operator's word, and proves it by the CRM's evidence", async () => {
  const out = await tellDemo(["crm", "--contacts", "600", "--kills", "1"]);
  expect(out.match(/kill -9 at/g)).toHaveLength(1);
  expect(out).toContain("596 done, 2 merged, 2 refused");
  expect(out).toMatch(/refused {2}c0000500 {2}CONFLICT: Contact already exists\. Existing ID: \d+, correlation id [0-9a-f-]{36}\./);
  expect(out).toMatch(/refused {2}c0000077 {2}VALIDATION_ERROR/);
  expect(out).toContain("has the job title “Captain” here too: revision 2");
  expect(out).toMatch(/nearly all our own: 1 became work/);
  expect(out).toContain("A second sync: 0 sent, 2 refused again");
  expect(out).toContain("of 100 allowed; 0 answers of 429.");
  expect(out).toMatch(/What would go of c0000008: 1 in contacts, 1 in crm links/);
  expect(out).toContain("c0000009 was referred by person8@example.com; now by “[forgotten]”.");
  expect(out).toContain("1 row is taken, 1 refused, because who was forgotten stays so.");
  expect(out).toContain(
    "stopped  The contacts are linked to records of the CRM account embedded/4224001, and this deployment's is embedded/62515.",
  );
  expect(out).toMatch(/retried, c0000042 is record \d+ there\. Nothing had gone there before/);
  expect(out).toContain("✓ Every contact is in the CRM once, through 1 kill, and its limit was never passed.");
});
