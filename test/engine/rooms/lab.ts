import { createExecutionContext, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { rooms, type Scope, tokens } from "millrace/operate";
import { roomOf, roomTicket } from "millrace/rooms";
import type { RoomEnv, RoomStub } from "../../../packages/millrace/src/rooms/client.ts";
import type { RoomDefinition } from "../../../packages/millrace/src/rooms/definition.ts";
import type { RoomFrame } from "../../../packages/millrace/src/rooms/history.ts";
import worker from "../../probe/worker.ts";
import { until } from "../../until.ts";
import { fresh, probeEnv } from "../harness.ts";

export const roomEnv = env as unknown as RoomEnv & { MILLRACE_KEY: string };

/** A client's WebSocket with the frames it has received. With `isDeaf` it does not close when the room closes it. */
export class Ear {
  readonly heard: RoomFrame[] = [];
  closed: { code: number; reason: string } | undefined;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket, { isDeaf = false } = {}) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      this.heard.push(data === "pong" ? { type: "refused", code: "pong", message: "" } : JSON.parse(data as string));
    });
    socket.addEventListener("close", ({ code, reason }) => {
      this.closed = { code, reason };
    });
    socket.accept({ allowHalfOpen: isDeaf });
  }

  say(frame: unknown): void {
    this.#socket.send(typeof frame === "string" || frame instanceof ArrayBuffer ? frame : JSON.stringify(frame));
  }

  close(): void {
    this.#socket.close(1000, "Bye.");
  }

  of<Type extends RoomFrame["type"]>(type: Type) {
    return this.heard.filter((frame): frame is Extract<RoomFrame, { type: Type }> => frame.type === type);
  }

  get welcome() {
    return this.of("welcome")[0];
  }

  /** Waits for this number of frames of a type. */
  hears<Type extends RoomFrame["type"]>(type: Type, count = 1) {
    return until(
      async () => this.of(type),
      (frames) => frames.length >= count,
      5000,
    );
  }

  isClosed() {
    return until(
      async () => this.closed,
      (closed) => closed !== undefined,
      5000,
    );
  }
}

/** A room that no other test uses. */
export class LabRoom {
  readonly tenant = fresh("tenant").toLowerCase();
  readonly key = fresh("room");
  readonly #room: RoomDefinition;

  constructor(room: RoomDefinition) {
    this.#room = room;
  }

  get path(): string {
    return `/rooms/${this.#room.name}/${this.key}`;
  }

  get client() {
    return roomOf(roomEnv, this.#room, this.key, this.tenant);
  }

  get object(): RoomStub {
    return rooms.objectOf(roomEnv, { room: this.#room.name, tenant: this.tenant, key: this.key });
  }

  token(actor: string, ...scopes: Scope[]): Promise<string> {
    return tokens.mint(probeEnv, { tenantId: this.tenant, actor, scopes });
  }

  async ask(path: string, headers: Record<string, string>, method = "GET"): Promise<Response> {
    const asked = new Request(`http://localhost${path}`, { method, headers });
    return (await worker.fetch?.(asked as never, probeEnv as unknown as Env, createExecutionContext())) as unknown as Response;
  }

  /** Requests a WebSocket to the room. */
  upgrade(headers: Record<string, string>, query = ""): Promise<Response> {
    return this.ask(`${this.path}${query}`, { upgrade: "websocket", ...headers });
  }

  /** Joins the room with a token. */
  async enter(
    actor: string,
    { scopes = ["read", "operate"], since, isDeaf }: { scopes?: Scope[]; since?: number; isDeaf?: boolean } = {},
  ): Promise<Ear> {
    const query = since === undefined ? "" : `?since=${since}`;
    const { status, webSocket } = await this.upgrade({ authorization: `Bearer ${await this.token(actor, ...scopes)}` }, query);
    if (status !== 101 || !webSocket) throw new Error(`Not let in: ${status}.`);
    const ear = new Ear(webSocket, { isDeaf });
    await ear.hears("welcome");
    return ear;
  }

  /** Joins the room with a ticket, which needs no database row. */
  async enterAs(name: string, since?: number): Promise<Ear> {
    const ticket = roomTicket(roomEnv, this.#room, this.key, this.tenant, { name, maySend: true });
    const query = since === undefined ? "" : `?since=${since}`;
    const { webSocket } = await this.upgrade({ "sec-websocket-protocol": `millrace.room, ticket.${ticket}` }, query);
    const ear = new Ear(webSocket as WebSocket);
    await ear.hears("welcome");
    return ear;
  }

  /** Aborts the object, as a crash does. Its sockets are closed. */
  async crash(): Promise<void> {
    const stub = this.object as unknown as DurableObjectStub;
    await runInDurableObject(stub, (_, state) => state.abort("The test aborts the object.")).catch(() => undefined);
  }
}
