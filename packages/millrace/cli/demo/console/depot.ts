import { json } from "node:stream/consumers";
import { type LoopbackServer, serve } from "../loopback.ts";

/** Its scales are broken for this parcel. */
const HEAVY = "parcel-2";
/** Whose address it will not have. */
export const NOWHERE = "grace";

const SAYS = { 200: "all is well", 422: "there is no such street", 503: "the scales are being repaired" };

/** A depot on this machine: it weighs parcels, all but one, and takes addresses, all but one customer's. */
export function startDepot(): Promise<LoopbackServer> {
  return serve(async (request, response) => {
    // Whoever asks again is told the truth: it has not weighed what they ask for.
    if (request.method === "GET") return void response.writeHead(404).end();
    const { about } = (await json(request)) as { about: string };
    const refusal =
      request.url === "/scales" && about === HEAVY ? 503 : request.url === "/addresses" && about.startsWith(NOWHERE) ? 422 : 200;
    response.writeHead(refusal).end(SAYS[refusal]);
  });
}
