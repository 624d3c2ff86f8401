import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    certsUrl: string;
  }
}

/**
 * Serves the keys of teams as Cloudflare Access does: the keys that a test has set for a path; status 500 where a test has set only a
 * number.
 */
export default async function setup(project: TestProject): Promise<() => void> {
  const teams = new Map<string, { body: string; asked: number }>();
  const server = createServer(async (request, response) => {
    const team = teams.get(request.url ?? "") ?? { body: "500", asked: 0 };
    if (request.method === "PUT") {
      teams.set(request.url ?? "", { ...team, body: await textOf(request) });
      return response.end();
    }
    if (request.method === "POST") return response.end(String(team.asked));
    team.asked++;
    response.statusCode = /^\d+$/.test(team.body) ? Number(team.body) : 200;
    response.setHeader("content-type", "application/json").end(team.body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  project.provide("certsUrl", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return () => void server.close();
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}
