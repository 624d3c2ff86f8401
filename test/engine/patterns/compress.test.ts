import { ids } from "millrace";
import { describe, expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { compressFile } from "../../docs/examples/compress.ts";
import { app } from "../../probe/worker.ts";
import { dieAt, expireLeases, fresh, keeperRound, probeEnv, reaches, rows, until } from "../harness.ts";

const acme = { tenantId: "acme", source: "test" };

/** Asks for the compression of a file with these bytes; without bytes, of a missing file. Returns its name and its instance. */
async function asked(bytes?: Uint8Array) {
  const name = `${fresh("scan")}.bin`;
  if (bytes) await probeEnv.PAYLOADS.put(`files/acme/${name}`, bytes, { httpMetadata: { contentType: "image/png" } });
  const id = ids.instance("acme", compressFile.name, name);
  const ask = () => acceptCommands(probeEnv, app, acme, [{ type: compressFile.command.type, payload: { name } }]);
  return { name, id, ask };
}

async function unpacked(name: string): Promise<{ bytes: Uint8Array; type: string | undefined }> {
  const packed = await probeEnv.PAYLOADS.get(`compressed/acme/${name}.gz`);
  const stream = packed?.body.pipeThrough(new DecompressionStream("gzip"));
  return { bytes: new Uint8Array(await new Response(stream).arrayBuffer()), type: packed?.httpMetadata?.contentType };
}

describe("the binary job of docs/patterns.md", () => {
  const megabyte = new Uint8Array(1_000_000).map((_, index) => index % 251);

  it("the binary job of docs/patterns.md reads a file of a megabyte by its key: no message and no row has its bytes", async () => {
    const { name, id, ask } = await asked(megabyte);
    await ask();
    expect(await reaches(id, "complete")).toBe("complete");
    expect(await unpacked(name)).toEqual({ bytes: megabyte, type: "image/png" });
    const [row] = await rows<{ size: number }>("SELECT length(envelope) AS size FROM millrace_instances WHERE id = ?1", id);
    expect(row?.size).toBeLessThan(1_000);
  });

  it("the binary job of docs/patterns.md writes the same object again when the process dies between the write and its record", async () => {
    const { name, id, ask } = await asked(megabyte);
    const death = dieAt("W03 effect done, not recorded", id);
    await ask();
    expect(await until(async () => death.died(), Boolean)).toBe(true);
    await expireLeases(id);
    await keeperRound();
    expect(await reaches(id, "complete")).toBe("complete");
    expect((await unpacked(name)).bytes).toEqual(megabyte);
    expect((await probeEnv.PAYLOADS.list({ prefix: `compressed/acme/${name}` })).objects).toHaveLength(1);
  });

  it("the binary job of docs/patterns.md fails without a retry when the file is missing", async () => {
    const { id, ask } = await asked();
    await ask();
    expect(await reaches(id, "errored")).toBe("errored");
    expect(await rows("SELECT json_extract(error, '$.message') AS said FROM millrace_instances WHERE id = ?1", id)).toEqual([
      { said: expect.stringContaining("The bucket has no files/acme/scan-") },
    ]);
  });
});
