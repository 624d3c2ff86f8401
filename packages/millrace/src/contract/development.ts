/** True when `MILLRACE_DEVELOPMENT` is "true". With this value, the log contains suspected mistakes, and full responses of upstreams. */
export function inDevelopment(env: object): boolean {
  return (env as { MILLRACE_DEVELOPMENT?: string }).MILLRACE_DEVELOPMENT === "true";
}
