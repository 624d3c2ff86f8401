import { createServer, type Server } from "node:http";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";

/** A server that accepts each signed fact once. Pass all valid secrets: two during a rotation. */
export function receiver(secrets: readonly string[], take: (fact: unknown) => void, seen = new Set<string>()): Server {
  return createServer(async (request, response) => {
    try {
      // The raw body: a body that was parsed and serialised again has another signature.
      const body = await text(request);
      const headers = request.headers as Record<string, string>;
      if (!secrets.some((secret) => isSigned(secret, body, headers))) return void response.writeHead(401).end();
      const id = headers["webhook-id"] ?? "";
      if (!seen.has(id)) {
        // With a database: store the id and your own rows in one transaction.
        take(JSON.parse(body));
        seen.add(id);
      }
      response.writeHead(204).end();
    } catch {
      // An error or a lost connection ends this request, not the process. The fact is sent again.
      response.writeHead(500).end();
    }
  });
}

/** True for a valid signature that is at most five minutes old. */
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
