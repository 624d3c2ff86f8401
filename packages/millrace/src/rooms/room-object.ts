import { DurableObject } from "cloudflare:workers";
import { firstOf, issuesOf } from "../contract/envelope.ts";
import { codeOf, MillraceError, messageOf } from "../contract/errors.ts";
import { byteLength, parseBounded } from "../contract/limits.ts";
import { Registration } from "../store/tenant-objects.ts";
import { type AnyRoom, plansOf, type RoomName, type RoomPlan, roomNameOf } from "./definition.ts";
import {
  CLOSE,
  keyIn,
  maxFrameBytes,
  type RoomFrame,
  RoomHistory,
  type RoomMessage,
  type RoomPost,
  type RoomSent,
  reasonOf,
  saidSchema,
} from "./history.ts";
import { ARRIVAL_HEADER, type Arrival } from "./ticket.ts";

/** The current state of a room. */
export interface RoomLook extends RoomName {
  sockets: number;
  /** The number of the room's latest message. */
  sequence: number;
  /** The number of different names of the room's open sockets. */
  present: number;
  /** The size of the room's storage in bytes. */
  bytes: number;
}

type SendAnswer = { sent: RoomSent } | { unknownRoom: true } | { maxBytes: number };

/** Maximum number of names in the list that a joining client gets. */
const LISTED_NAMES = 500;
const TOKEN_ENDED = "The token has expired: connect again with a new token.";

/**
 * The Durable Object of one room. While the object hibernates, the platform keeps the sockets open and answers `ping` with `pong`. The
 * object has no timers or alarms. The object stores a message on disk before it sends the message to clients.
 */
export class RoomObject extends DurableObject {
  protected readonly plans: ReadonlyMap<string, RoomPlan> = new Map();
  #history = new RoomHistory(this.ctx.storage.sql);
  #registration = new Registration(this.env, this.ctx.storage.kv);
  readonly #seats = new Seats();
  /** The sockets of the room by name; undefined until the first use of the sockets. */
  #present: Present | undefined;

  constructor(ctx: DurableObjectState, env: never) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  /** Accepts a client that the route has authenticated. */
  override async fetch(request: Request): Promise<Response> {
    const { plan } = this.#self();
    const arrival: Arrival = JSON.parse(decodeURIComponent(request.headers.get(ARRIVAL_HEADER) ?? "null"));
    if (!plan) return new Response(null, { status: 404 });
    await this.#register();
    const present = this.#presence();
    const { name, maySend, until, since, protocol } = arrival;
    if (present.sockets.size >= plan.maxSockets) return new Response("The room is full.", { status: 429 });
    if (present.socketsOf(name) >= plan.maxSocketsPerName) {
      return new Response(`Your name has ${plan.maxSocketsPerName} sockets in the room, the maximum: close one of them.`, { status: 429 });
    }
    const [client, socket] = Object.values(new WebSocketPair()) as [WebSocket, WebSocket];
    this.ctx.acceptWebSocket(socket);
    this.#seats.take(socket, { kind: plan.name, name, maySend, until, room: plan.rate.burst, at: Date.now() });
    const isNew = present.enter(socket);
    const here = plan.presence === 0 ? { count: 0, names: [] } : { count: present.count, names: present.names(LISTED_NAMES) };
    tell(socket, { type: "welcome", you: name, sequence: this.#history.last, ...this.#history.after(since, plan), present: here });
    if (isNew) this.#announce(plan, { type: "joined", who: name }, socket);
    const headers = new Headers(protocol === undefined ? [] : [["sec-websocket-protocol", protocol]]);
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  /** Sends a message from a Worker or a step. */
  async send(post: RoomPost): Promise<SendAnswer> {
    const { plan } = this.#self();
    if (!plan) return { unknownRoom: true };
    if (byteLength(post.text) > plan.maxBytes) return { maxBytes: plan.maxBytes };
    await this.#register();
    return { sent: this.#say({ ...post, key: post.key === null ? null : `app/${post.key}` }, plan) };
  }

  look(): RoomLook {
    const { name } = this.#self();
    const { sockets, count } = this.#presence();
    return { ...name, sockets: sockets.size, sequence: this.#history.last, present: count, bytes: this.ctx.storage.sql.databaseSize };
  }

  /** Closes the sockets of a name and returns their number. */
  dismiss(name: string, reason: string): number {
    const theirs = [...this.#presence().sockets].filter((socket) => this.#seats.of(socket).name === name);
    this.#close(theirs, CLOSE.dismissed, reasonOf(reason));
    return theirs.length;
  }

  /** Deletes every message and closes every socket, for the deletion of a tenant. */
  async erase(): Promise<void> {
    this.#close([...this.#presence().sockets], CLOSE.dismissed, "The room was erased.");
    const erased = this.ctx.storage.deleteAll();
    this.#history = new RoomHistory(this.ctx.storage.sql);
    this.#registration = new Registration(this.env, this.ctx.storage.kv);
    await erased;
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): void {
    const now = Date.now();
    const seat = this.#seats.of(socket);
    const plan = this.plans.get(seat.kind);
    if (!plan || seat.hasLeft) return;
    const after = afterFrame(seat, plan.rate, now);
    if (after) this.#seats.take(socket, after);
    const refusal = refusalOf(data, plan, { hasEnded: seat.until !== null && seat.until <= now, isTooFast: after === undefined });
    if (refusal) this.#close([socket], ...refusal);
    else this.#hear(socket, data as string, plan);
  }

  override webSocketClose(socket: WebSocket, code: number, reason: string): void {
    this.#leave([socket]);
    // A client's close code may be 1005 or 1006, which a server cannot send. Such a code must not throw an error.
    attempt(() => socket.close(code, reason));
  }

  override webSocketError(socket: WebSocket): void {
    this.#leave([socket]);
  }

  #hear(socket: WebSocket, data: string, plan: RoomPlan): void {
    const { name, maySend } = this.#seats.of(socket);
    try {
      const said = saidSchema.safeParse(parseBounded(data));
      if (!said.success) throw new MillraceError("invalid_payload", firstOf(issuesOf(said.error).slice(0, 1), "the frame"));
      const { key } = said.data;
      if (!maySend) throw new MillraceError("forbidden", "You can read in this room, but not send.");
      const body = plan.message ? plan.message.safeParse(said.data.body) : { success: true as const, data: said.data.body };
      if (!body.success) throw new MillraceError("invalid_payload", firstOf(issuesOf(body.error).slice(0, 1), "the body"));
      const text = JSON.stringify(body.data);
      if (byteLength(text) > plan.maxBytes) throw new MillraceError("payload_too_large", tooLarge(plan));
      this.#say({ from: name, text, key: key === undefined ? null : `by/${JSON.stringify([name, key])}` }, plan, { socket, key });
    } catch (error) {
      const code = codeOf(error);
      if (code === undefined) throw error;
      const key = keyIn(data);
      if (code === "invalid_json") this.#close([socket], CLOSE.notJson, "Send JSON.");
      else if (code === "payload_too_large") this.#close([socket], CLOSE.tooLarge, tooLarge(plan));
      else tell(socket, { type: "refused", code, message: messageOf(error), ...(key !== undefined && { key }) });
    }
  }

  /** Stores a message and sends it to all sockets. A duplicate of a stored message is sent only to the sender of the duplicate. */
  #say(post: RoomPost, plan: RoomPlan, by?: { socket: WebSocket; key: string | undefined }): RoomSent {
    const at = Date.now();
    const sent = this.#history.keep(post, plan, at);
    const { sequence, duplicate } = sent;
    const message: RoomMessage = { sequence, from: post.from, at, body: JSON.parse(post.text) };
    if (!duplicate) this.#tellAll({ type: "message", ...message }, by?.socket);
    const told = duplicate ? this.#history.find(sequence) : message;
    if (by && told) tell(by.socket, { type: "message", ...told, ...(by.key !== undefined && { key: by.key }) });
    return sent;
  }

  /** Sends a frame to all sockets except the given socket. A socket with an expired token gets no frame. */
  #tellAll(frame: RoomFrame, except: WebSocket | undefined): void {
    const text = JSON.stringify(frame);
    const now = Date.now();
    const ended: WebSocket[] = [];
    for (const socket of this.#presence().sockets) {
      const { until } = this.#seats.of(socket);
      if (until !== null && until <= now) ended.push(socket);
      else if (socket !== except) attempt(() => socket.send(text));
    }
    this.#close(ended, CLOSE.tokenEnded, TOKEN_ENDED);
  }

  #announce(plan: RoomPlan, frame: RoomFrame, except?: WebSocket): void {
    if (this.#presence().sockets.size <= plan.presence) this.#tellAll(frame, except);
  }

  /** Closes sockets. The sockets leave the room at once, even if their clients do not close them. */
  #close(sockets: readonly WebSocket[], code: number, reason: string): void {
    for (const socket of sockets) attempt(() => socket.close(code, reason));
    this.#leave(sockets);
  }

  /**
   * Removes sockets from the room. A socket that has left the room is ignored, because an error and two closes may be reported for the same
   * socket.
   */
  #leave(sockets: readonly WebSocket[]): void {
    const present = this.#presence();
    const here = sockets.map((socket) => ({ socket, seat: this.#seats.of(socket) })).filter(({ seat }) => !seat.hasLeft);
    const last = here.filter(({ socket, seat }) => {
      this.#seats.take(socket, { ...seat, hasLeft: true });
      return present.leave(socket);
    });
    for (const { seat } of last) {
      const plan = this.plans.get(seat.kind);
      if (plan) this.#announce(plan, { type: "left", who: seat.name });
    }
  }

  #presence(): Present {
    this.#present ??= new Present(this.#seats, this.ctx.getWebSockets());
    return this.#present;
  }

  #register(): Promise<void> | undefined {
    const { name } = this.ctx.id;
    const { tenant: tenantId } = this.#self().name;
    return name === undefined ? undefined : this.#registration.make({ tenantId, binding: "ROOMS", name });
  }

  #self(): { name: RoomName; plan: RoomPlan | undefined } {
    const name = roomNameOf(this.ctx.id.name) ?? { room: "", tenant: "", key: "" };
    return { name, plan: this.plans.get(name.room) };
  }
}

/** The close code and reason for an invalid frame; undefined for a valid frame. */
function refusalOf(
  data: string | ArrayBuffer,
  plan: RoomPlan,
  { hasEnded, isTooFast }: { hasEnded: boolean; isTooFast: boolean },
): [code: number, reason: string] | undefined {
  const { burst, perSecond } = plan.rate;
  if (hasEnded) return [CLOSE.tokenEnded, TOKEN_ENDED];
  if (isTooFast) return [CLOSE.tooFast, `Too many frames: send at most ${burst} at once, then ${perSecond} per second.`];
  if (typeof data !== "string") return [CLOSE.notText, "Send text: JSON in UTF-8."];
  return byteLength(data) > maxFrameBytes(plan) ? [CLOSE.tooLarge, tooLarge(plan)] : undefined;
}

function tooLarge({ maxBytes }: RoomPlan): string {
  return `A message has at most ${maxBytes} bytes: store more, and send a reference to it.`;
}

function tell(socket: WebSocket, frame: RoomFrame): void {
  attempt(() => socket.send(JSON.stringify(frame)));
}

/** Calls a socket's method and ignores errors, because a failure of one socket must not affect other sockets. */
function attempt(act: () => void): void {
  try {
    act();
  } catch {
    // The socket is closing already.
  }
}

/**
 * Creates the object class of the given rooms: `export class Rooms extends roomObject([desk]) {}`. Errors: `config_invalid`, with the
 * necessary change.
 */
export function roomObject(rooms: readonly AnyRoom[]): typeof RoomObject {
  const plans = plansOf(rooms);
  return class extends RoomObject {
    protected override readonly plans = plans;
  };
}

/** The open sockets of a room by name. A socket that the room has closed does not count. */
class Present {
  readonly #seats: Seats;
  readonly #sockets = new Set<WebSocket>();
  readonly #names = new Map<string, number>();

  constructor(seats: Seats, sockets: readonly WebSocket[]) {
    this.#seats = seats;
    for (const socket of sockets) if (!seats.of(socket).hasLeft) this.enter(socket);
  }

  get sockets(): ReadonlySet<WebSocket> {
    return this.#sockets;
  }

  /** The number of different names of the room's open sockets. */
  get count(): number {
    return this.#names.size;
  }

  names(most: number): string[] {
    return this.#names.keys().take(most).toArray();
  }

  socketsOf(name: string): number {
    return this.#names.get(name) ?? 0;
  }

  /** Adds a socket. Returns true if no other open socket in the room has the same name. */
  enter(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = this.#names.get(name) ?? 0;
    this.#sockets.add(socket);
    this.#names.set(name, others + 1);
    return others === 0;
  }

  /**
   * Removes a socket. Returns true if no open socket with the socket's name remains. If the close of a socket ended the room's hibernation,
   * the socket may not have been counted.
   */
  leave(socket: WebSocket): boolean {
    const { name } = this.#seats.of(socket);
    const others = (this.#names.get(name) ?? 0) - (this.#sockets.delete(socket) ? 1 : 0);
    if (others > 0) this.#names.set(name, others);
    else this.#names.delete(name);
    return others <= 0;
  }
}

/** The state of one socket. The platform stores it with the socket while the object hibernates. */
interface Seat {
  /** The kind of the room. The kind is stored because a room's object that a socket wakes does not get the room's name. */
  kind: string;
  /** The actor of the token, or the guest's name on the ticket. */
  name: string;
  maySend: boolean;
  /** When the token ends, in milliseconds since 1970; null for a token without an end. */
  until: number | null;
  /** The number of frames that the client may send without a delay at the time `at`. */
  room: number;
  at: number;
  /** True after either side has closed the socket, so that later events of the socket are ignored. */
  hasLeft?: true;
}

/** The state of a socket after one more frame; undefined if the frame exceeds the rate. */
function afterFrame(seat: Seat, rate: { burst: number; perSecond: number }, now: number): Seat | undefined {
  const room = Math.min(rate.burst, seat.room + (Math.max(0, now - seat.at) / 1000) * rate.perSecond);
  return room < 1 ? undefined : { ...seat, room: room - 1, at: now };
}

/** The states of open sockets, which are read from the platform once and then cached. */
class Seats {
  readonly #seats = new WeakMap<WebSocket, Seat>();

  of(socket: WebSocket): Seat {
    const known = this.#seats.get(socket) ?? (socket.deserializeAttachment() as Seat);
    this.#seats.set(socket, known);
    return known;
  }

  take(socket: WebSocket, seat: Seat): void {
    socket.serializeAttachment(seat);
    this.#seats.set(socket, seat);
  }
}
