import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";

/**
 * The moments of a write: `before` it is forwarded to the remote server, `during` its processing there, once it is `answered` and the
 * engine has no response yet, and when the response has been `passed` on.
 */
export const MOMENTS = ["before", "during", "answered", "passed"] as const;
export type Moment = (typeof MOMENTS)[number];

export interface Gate {
  url: string;
  close(): void;
}

/** A proxy between the engine and a server: it forwards everything unchanged, reports each write, and waits on request. */
export async function openGate(
  target: string,
  isWrite: (request: IncomingMessage) => boolean,
  passing: (moment: Moment) => Promise<void>,
): Promise<Gate> {
  const server = createServer((request, response) => {
    const watched = isWrite(request);
    forward(target, request, response, async (moment) => (watched ? passing(moment) : undefined)).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("The gate has no port.");
  return { url: `http://127.0.0.1:${address.port}`, close: () => void server.close().closeAllConnections() };
}

async function forward(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  passing: (moment: Moment) => Promise<void>,
): Promise<void> {
  const body = await read(request);
  await passing("before");
  // The client has disconnected without a request: a kill before this moment leaves no effect.
  if (response.destroyed || request.socket.destroyed) return;

  const answered = send(target, request, body);
  await passing("during");
  const answer = await answered;
  await passing("answered");
  response.writeHead(answer.status, answer.headers).end(answer.body);
  await passing("passed");
}

interface Answer {
  status: number;
  headers: Record<string, string | string[]>;
  body: Buffer;
}

function send(target: string, { url = "/", method, headers }: IncomingMessage, body: Buffer): Promise<Answer> {
  const { host: _, connection: __, ...passed } = headers;
  return new Promise((resolve, reject) => {
    httpRequest(target, { path: url, method, headers: { ...passed, "content-length": body.length } }, async (answer) => {
      const kept = Object.entries(answer.headers).filter((pair): pair is [string, string | string[]] => pair[1] !== undefined);
      const hop = new Set(["connection", "keep-alive", "transfer-encoding", "content-length"]);
      const answerHeaders = Object.fromEntries(kept.filter(([name]) => !hop.has(name)));
      read(answer).then((bytes) => resolve({ status: answer.statusCode ?? 502, headers: answerHeaders, body: bytes }), reject);
    })
      .once("error", reject)
      .end(body);
  });
}

async function read(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
