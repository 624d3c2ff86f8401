import { spawn } from "node:child_process";
import { mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface Pds {
  url: string;
  handle: string;
  password: string;
  /** Every post in the account's repository. */
  posts(): Promise<{ uri: string; text: string }[]>;
  stop(): void;
}

const COLLECTION = "app.bsky.feed.post";

/**
 * Starts a real PDS in a separate process. Its better-sqlite3 12 crashes on Node 24.19 and later when a database is
 * garbage-collected (WiseLibs/better-sqlite3#1515), so `E2E_PDS_NODE` may name another Node, 22.18 at least, with which it was
 * installed.
 */
export async function startPds(devEnv: string, folder: string): Promise<Pds> {
  const [handle, password] = ["brand.test", "a-password-of-the-brand"];
  const data = join(folder, "pds");
  mkdirSync(data, { recursive: true });
  const logFile = join(folder, "pds.log");
  const child = spawn(
    process.env.E2E_PDS_NODE || process.execPath,
    [join(import.meta.dirname, "pds-process.ts"), devEnv, handle, password],
    {
      env: { ...process.env, TMPDIR: data },
      stdio: ["ignore", "pipe", openSync(logFile, "a")],
    },
  );
  const stop = () => void child.kill();
  process.once("exit", stop);
  const { url, did } = await new Promise<{ url: string; did: string }>((resolve, reject) => {
    child.once("exit", () => reject(new Error(`The PDS ended: ${lastLineOf(logFile)} More is in ${logFile}.`)));
    let said = "";
    child.stdout?.on("data", (chunk) => {
      said += chunk;
      const line = said.split("\n").find((one) => one.startsWith('{"url"'));
      if (line) resolve(JSON.parse(line));
    });
  });
  return { url, handle, password, posts: () => postsOf(url, did), stop };
}

async function postsOf(url: string, did: string): Promise<{ uri: string; text: string }[]> {
  const query = new URLSearchParams({ repo: did, collection: COLLECTION, limit: "100" });
  const answer = await fetch(`${url}/xrpc/com.atproto.repo.listRecords?${query}`);
  if (!answer.ok) throw new Error(`The PDS answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  const { records } = (await answer.json()) as { records: { uri: string; value: { text: string } }[] };
  return records.map(({ uri, value }) => ({ uri, text: value.text }));
}

function lastLineOf(file: string): string {
  return (
    readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .findLast((line) => /error/i.test(line)) ?? "it said nothing."
  );
}
