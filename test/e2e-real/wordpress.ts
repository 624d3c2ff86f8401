import { spawn } from "node:child_process";
import { createReadStream, existsSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";

export interface WordPress {
  url: string;
  version: string;
  user: string;
  password: string;
  /** All posts in every status. */
  posts(): Promise<{ id: number; slug: string; status: string }[]>;
  stop(): void;
}

/** PHP in WebAssembly unpacks and starts WordPress in about 30 s. */
const START_MS = 240_000;
const RELEASE = "wp-6.5.zip";

/** Starts a real WordPress in memory, with an application password for its administrator. Nothing is downloaded. */
export async function startWordPress(cli: string, builds: string, folder: string): Promise<WordPress> {
  const shared = join(folder, "wordpress");
  mkdirSync(shared, { recursive: true });
  const zip = join(builds, "src/wordpress", RELEASE);
  const release = await serve(zip);
  const port = await freePort();
  const blueprint = join(folder, "blueprint.json");
  writeFileSync(blueprint, JSON.stringify(blueprintOf(`${release.url}/${RELEASE}`)));

  const log = openSync(join(folder, "wordpress.log"), "a");
  // Fewer than six workers may block one another on file locks, according to its documentation.
  const args = ["server", "--workers", "6", "--port", String(port), "--blueprint", blueprint, "--mount", `${shared}:/shared`];
  // Application passwords require https, except on a site that is configured as local.
  const child = spawn(process.execPath, [join(cli, "wp-playground.js"), ...args, "--define", "WP_ENVIRONMENT_TYPE", "local"], {
    env: { ...process.env, HOME: folder, TMPDIR: shared },
    stdio: ["ignore", log, log],
  });
  const url = `http://127.0.0.1:${port}`;
  const stop = () => void child.kill();
  process.once("exit", stop);
  try {
    await until(
      () => existsSync(join(shared, "ready")) && answers(url),
      START_MS,
      () => child.exitCode !== null,
    );
  } catch (cause) {
    stop();
    throw new Error(`WordPress did not start; ${join(folder, "wordpress.log")} says why.`, { cause });
  } finally {
    release.close();
  }
  const { version, password } = JSON.parse(readFileSync(join(shared, "ready"), "utf8"));
  const user = "admin";
  return { url, version, user, password, posts: () => postsOf(url, `${user}:${password}`), stop };
}

/** Creates the password inside, and publishes it in the shared folder by one `rename`, so that no reader gets a partial file. */
function blueprintOf(wp: string): object {
  const code = `<?php
require '/wordpress/wp-load.php';
[$password] = WP_Application_Passwords::create_new_application_password(1, ['name' => 'millrace']);
file_put_contents('/shared/ready.part', json_encode(['version' => get_bloginfo('version'), 'password' => $password]));
rename('/shared/ready.part', '/shared/ready');`;
  return { preferredVersions: { php: "8.3", wp }, steps: [{ step: "runPHP", code }] };
}

async function postsOf(url: string, credential: string): Promise<{ id: number; slug: string; status: string }[]> {
  const query = new URLSearchParams({
    rest_route: "/wp/v2/posts",
    status: "any,trash",
    context: "edit",
    per_page: "100",
    _fields: "id,slug,status",
  });
  const answer = await fetch(`${url}/?${query}`, { headers: { authorization: `Basic ${btoa(credential)}` } });
  if (!answer.ok) throw new Error(`WordPress answered ${answer.status}: ${(await answer.text()).slice(0, 300)}`);
  return (await answer.json()) as { id: number; slug: string; status: string }[];
}

/** The release as a download: the command line accepts URLs only. */
async function serve(file: string): Promise<{ url: string; close(): void }> {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/zip", "content-length": statSync(file).size });
    createReadStream(file).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port was free.");
  return { url: `http://127.0.0.1:${address.port}`, close: () => void server.close().closeAllConnections() };
}

async function answers(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/?rest_route=/`, { signal: AbortSignal.timeout(10_000) }).catch(() => undefined);
  return answer?.ok ?? false;
}

async function until(done: () => boolean | Promise<boolean>, withinMs: number, over: () => boolean): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await done())) {
    if (over() || Date.now() > deadline) throw new Error("The process ended, or took too long.");
    await sleep(250);
  }
}
