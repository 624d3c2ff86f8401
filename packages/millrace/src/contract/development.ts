/** True where `MILLRACE_DEVELOPMENT` is "true": there what is only suspected is said too, and what upstreams answered in full. */
export function inDevelopment(env: object): boolean {
  return (env as { MILLRACE_DEVELOPMENT?: string }).MILLRACE_DEVELOPMENT === "true";
}
