/**
 * Chooses the engine. Engines are imported only here, and only the chosen one: with `node`, no native binding is
 * loaded or needed.
 */
import { ConfigError } from '../../platform/config-error.ts'
import type { Logger } from '../../platform/log.ts'
import type { Settings } from '../../settings/settings.ts'
import { type ConnectionQuotaOptions, connectionQuota } from './connection-quota.ts'
import type { HttpEngine } from './engine.ts'
import { loadBinding } from './uws/binding.ts'

type ConnectionLimits = Omit<ConnectionQuotaOptions, 'log'>

const unlimited: ConnectionLimits = { perAddress: 0, isTrusted: () => false }

/**
 * Rejects, for `uws`, with the loader's error (code UWS_BINDING_UNAVAILABLE) if no binding can be loaded. Rejects
 * with ConfigError if connections per address are limited with uWebSockets, whose binding does not report new
 * connections.
 */
export async function openEngine(
  wanted: Settings['http.engine'],
  log: Logger,
  { perAddress, isTrusted }: ConnectionLimits = unlimited,
): Promise<HttpEngine> {
  if (perAddress > 0 && wanted !== 'node') {
    throw new ConfigError(
      `http.max_connections_per_address: needs http.engine node, not ${wanted}: uWebSockets does not report new connections`,
    )
  }
  if (wanted !== 'node') {
    try {
      loadBinding()
      return (await import('./uws/engine.ts')).createEngine()
    } catch (error) {
      if (wanted === 'uws' || !isWithoutBinding(error)) throw error
      log.warn({ engine: 'node', reason: error.message }, 'http.engine_fallback')
    }
  }
  return (await import('./node/engine.ts')).createEngine(connectionQuota({ perAddress, isTrusted, log }))
}

function isWithoutBinding(error: unknown): error is Error {
  return error instanceof Error && (error as { code?: unknown }).code === 'UWS_BINDING_UNAVAILABLE'
}
