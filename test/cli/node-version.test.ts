import { expect, it } from "vitest";
import { nodeRefusal } from "../../packages/millrace/cli/node-version.js";

it.each(["18.20.0", "20.20.2", "22.12.0", "22.17.1", "23.5.0"])("Node %s is refused with an instruction", (version) => {
  expect(nodeRefusal(version)).toBe(
    `This is Node ${version}; Millrace needs 22.18 or newer. Add it to this folder: npm install --save-dev node (in a clone of Millrace: npm install).`,
  );
});

it.each(["22.18.0", "22.21.3", "23.6.0", "24.0.0", "26.1.0", process.versions.node])("Node %s is accepted", (version) => {
  expect(nodeRefusal(version)).toBeUndefined();
});
