import { describe } from "vitest";
import worker from "../../../src/worker.ts";
import { callerWith } from "../../api/client.ts";
import { keepsItsPromises } from "../raw/promises.ts";

// Runs as a test in the copy to which docs/write-a-chain.md was applied: here there is no such chain.
const expire = "UPDATE millrace_inbox SET lease_until = 0 WHERE state = 'claimed'";

describe("The chain of docs/write-a-chain.md", () => {
  keepsItsPromises(async () => ({ worker, expire, audit: "millrace_actions", ...(await callerWith()) }));
});
