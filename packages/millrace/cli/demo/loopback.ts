import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server on this machine alone, for what a story has outside of the engine. */
export interface LoopbackServer {
  url: string;
  stop(): void;
}

/** Starts one, on a free port. */
export async function serve(take: (request: IncomingMessage, response: ServerResponse) => Promise<void>): Promise<LoopbackServer> {
  // Who hangs up halfway ends that request, not this process.
  const server = createServer((request, response) => void take(request, response).catch(() => response.destroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop() {
      server.close();
      server.closeAllConnections();
    },
  };
}
