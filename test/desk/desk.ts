import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";

// A typical back office: it opens accounts and sends mails, it honours no idempotency keys, and it fails on request. The tests count
// effects by its record. Run it with: npx node test/desk/desk.ts 28417

/** An effect of the desk. */
export interface Done {
  id: string;
  what: "accounts" | "mails";
  customer: string;
  /** The trace in the request's headers. */
  traceparent?: string | undefined;
}

/** The result of the next requests about a customer: no effect, or an effect and then a closed connection without a response. */
export interface Trouble {
  what: Done["what"];
  customer: string;
  how: "refuses" | "hangs up";
  times: number;
}

/** Starts a desk on a port; 0 selects a free port. */
export async function openDesk(port: number): Promise<{ url: string; server: Server }> {
  const done: Done[] = [];
  const troubles: Trouble[] = [];
  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://desk");
    const what = url.pathname.slice(1) as Done["what"];
    const about = (one: Pick<Done, "what" | "customer">, customer: string | null) => one.what === what && one.customer === customer;
    if (request.method === "GET") {
      const customer = url.searchParams.get("customer");
      return answer(
        response,
        200,
        done.filter((one) => about(one, customer)),
      );
    }
    const body = JSON.parse(await text(request));
    if (url.pathname === "/troubles") return answer(response, 200, troubles.push(body));
    const trouble = troubles.find((one) => about(one, body.customer) && one.times > 0);
    if (trouble) trouble.times--;
    if (trouble?.how === "refuses") return answer(response, 423, { error: "The desk is closed." });
    const { traceparent } = request.headers as { traceparent?: string };
    const entry: Done = { id: `${what}-${done.length + 1}`, what, customer: body.customer, traceparent };
    done.push(entry);
    if (trouble) return void response.destroy();
    answer(response, 201, entry);
  };
  // A client that disconnects early ends that request, not this process.
  const server = createServer(
    { keepAliveTimeout: 0 },
    (request, response) => void serve(request, response).catch(() => response.destroy()),
  );
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, "127.0.0.1", resolve));
  const { port: taken } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${taken}`, server };
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

if (import.meta.main) {
  const { url } = await openDesk(Number(process.argv[2] ?? 28417));
  console.log(`The desk is open at ${url}`);
}
