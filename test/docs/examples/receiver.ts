import { createServer, type Server } from "node:http";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";

/** A server that takes facts: only signed ones, each once. Give it every secret that is yours: two during a rotation. */
export function receiver(secrets: readonly string[], take: (fact: unknown) => void, seen = new Set<string>()): Server {
  return createServer(async (request, response) => {
    try {
      // The bytes as they came: a body that was parsed and written again has another signature.
      const body = await text(request);
      const headers = request.headers as Record<string, string>;
      if (!secrets.some((secret) => isSigned(secret, body, headers))) return void response.writeHead(401).end();
      const id = headers["webhook-id"] ?? "";
      if (!seen.has(id)) {
        // With a database: the id and what the fact leads to, in one transaction.
        take(JSON.parse(body));
        seen.add(id);
      }
      response.writeHead(204).end();
    } catch {
      // Whatever went wrong, or hung up halfway, ends this request and not the process: the fact comes again.
      response.writeHead(500).end();
    }
  });
}

/** Right, and not older than five minutes. */
function isSigned(secret: string, body: string, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

if (import.meta.main) {
  receiver((process.env.WEBHOOK_SECRETS ?? "").split(" "), console.log).listen(Number(process.env.PORT ?? 9000));
}
