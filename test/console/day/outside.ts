import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";

/** The parcel for which the depot's scales fail. */
const HEAVY = "parcel-2";
/** The customer whose addresses the depot refuses. */
export const REFUSED = "grace";

const SAYS = { 200: "all is well", 422: "there is no such street", 503: "the scales are being repaired" };

/** The shop's upstreams: warehouse, courier, mail and depot. */
export interface Outside {
  url: string;
  /** True if the courier accepts bookings. Initially false. */
  letBook(open: boolean): void;
  /** Sends the next mail of this order, and closes the connection without a response. */
  loseAnswer(order: string): void;
  stop(): void;
}

/** Starts the upstreams as one server on a free port of the loopback address. */
export async function startOutside(): Promise<Outside> {
  const lost = new Set<string>();
  let isOpen = false;
  let made = 0;
  const server = createServer(async (request, response) => {
    // A lookup finds nothing: the depot has weighed no parcel yet.
    if (request.method === "GET") return void response.writeHead(404).end();
    const { about = "", order = "" } = (await json(request)) as { about?: string; order?: string };
    const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body));
    const depot = (status: 200 | 422 | 503) => response.writeHead(status).end(SAYS[status]);
    if (request.url === "/scales") return void depot(about === HEAVY ? 503 : 200);
    if (request.url === "/addresses") return void depot(about.startsWith(REFUSED) ? 422 : 200);
    if (request.url === "/bookings" && !isOpen)
      return void answer(403, { error: "The courier answered 403: the account's key has expired." });
    if (request.url === "/mails" && lost.delete(order)) return void response.destroy();
    answer(201, { id: `${request.url?.slice(1, -1)}-${++made}` });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    letBook(open) {
      isOpen = open;
    },
    loseAnswer: (order) => void lost.add(order),
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
