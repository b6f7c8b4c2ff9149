/**
 * Chooses the engine. Each is imported here alone and only when it is chosen: with `node` no native binding is loaded,
 * nor does anything need one.
 */
import type { Logger } from '../log.ts'
import type { Settings } from '../settings.ts'
import type { HttpEngine } from './engine.ts'
import { loadBinding } from './uws/binding.ts'

/** Rejects, for `uws`, with the loader's error (code UWS_BINDING_UNAVAILABLE) when no binding can be loaded. */
export async function openEngine(wanted: Settings['http.engine'], log: Logger): Promise<HttpEngine> {
  if (wanted !== 'node') {
    try {
      loadBinding()
      return (await import('./uws/engine.ts')).createEngine()
    } catch (error) {
      if (wanted === 'uws' || !isWithoutBinding(error)) throw error
      log.warn({ engine: 'node', reason: error.message }, 'http.engine_fallback')
    }
  }
  return (await import('./node/engine.ts')).createEngine()
}

function isWithoutBinding(error: unknown): error is Error {
  return error instanceof Error && (error as { code?: unknown }).code === 'UWS_BINDING_UNAVAILABLE'
}
