/**
 * How much a pipe keeps of its clients' addresses (docs/dev/contract.md#pipes). Free of schemas, because the dashboard
 * loads it.
 */

/** The values of `pipe_client_ip`. */
export const clientIpModes = ['full', 'truncated', 'none'] as const
export type ClientIpMode = (typeof clientIpModes)[number]

/** True when the pipe writes an address, whole or truncated, into its records. */
export function writesClientIp(pipe: { pipe_add_ingest_ip: boolean; pipe_client_ip: ClientIpMode }): boolean {
  return pipe.pipe_add_ingest_ip && pipe.pipe_client_ip !== 'none'
}

/**
 * Request headers in which proxies pass the whole address of a client on. A pipe that does not keep whole addresses
 * cannot write them into its records. Lower case.
 */
export const addressHeaders: ReadonlySet<string> = new Set([
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'cf-pseudo-ipv4',
  'client-ip',
  'fastly-client-ip',
  'fly-client-ip',
  'forwarded',
  'forwarded-for',
  'true-client-ip',
  'x-appengine-user-ip',
  'x-azure-clientip',
  'x-azure-socketip',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-envoy-external-address',
  'x-forwarded',
  'x-forwarded-for',
  'x-nf-client-connection-ip',
  'x-original-forwarded-for',
  'x-real-ip',
  'x-vercel-forwarded-for',
])
