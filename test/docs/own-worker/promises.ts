import { describe } from "vitest";
import { callerWith } from "../../api/client.ts";
import { keepsItsPromises } from "../raw/promises.ts";
import worker from "./worker.ts";

// Runs as a test in the folder to which docs/write-a-chain.md was applied: the Worker here has no such chain.
const expire = "UPDATE millrace_inbox SET lease_until = 0 WHERE state = 'claimed'";

describe("The chain of docs/write-a-chain.md", () => {
  keepsItsPromises(async () => ({
    ...{ worker, expire, audit: "millrace_actions", command: "welcome", queue: "my-worker-millrace", event: undefined },
    ...(await callerWith()),
  }));
});
