/**
 * Keeps a test run readable: workerd reports every exception that crosses an object's boundary, and these tests cause hundreds on purpose.
 * A failing test still shows its own error and logs. MILLRACE_TEST_LOGS=1 shows everything.
 */
const NOISE = /^(uncaught exception;|exception = |stack: |workerd\/|\{"log":)/;

export function hideRuntimeNoise(): void {
  if (process.env.MILLRACE_TEST_LOGS) return;
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write.bind(stream);
    stream.write = ((chunk: string | Uint8Array, ...rest: []) =>
      NOISE.test(String(chunk)) ? true : write(chunk, ...rest)) as typeof stream.write;
  }
}
