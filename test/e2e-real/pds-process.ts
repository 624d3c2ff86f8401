import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// A real Bluesky PDS with its identity directory, in memory, with one account: node test/e2e-real/pds-process.ts FOLDER HANDLE PASSWORD.
// FOLDER is the folder in which @atproto/dev-env is installed. The process prints its address as one line of JSON, and runs until it is
// killed.

const [folder = "", handle, password] = process.argv.slice(2);
const main = createRequire(join(folder, "from.js")).resolve("@atproto/dev-env");
const { TestNetworkNoAppView } = await import(pathToFileURL(main).href);
const network = await TestNetworkNoAppView.create({});
const answer = await fetch(`${network.pds.url}/xrpc/com.atproto.server.createAccount`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ handle, password, email: "brand@example.com" }),
});
if (!answer.ok) throw new Error(`createAccount answered ${answer.status}: ${await answer.text()}`);
const { did } = (await answer.json()) as { did: string };
console.log(JSON.stringify({ url: network.pds.url, did }));
