/**
 * Secrets of a destination config: each from its environment variable, or asked for on a terminal; never from a flag.
 */
import { exitCodes, Failure } from '../../client/failure.ts'
import type { DestinationType } from '../../contract/destination.ts'
import { askSecret, canAsk } from '../terminal.ts'

/** As the contract's `secretKeys`; a test compares both (its module is slow to load). */
export const secretKeysOf: Record<DestinationType, readonly string[]> = {
  destination_database: ['password'],
  destination_object_store: ['secret_key', 'session_token'],
  destination_http_endpoint: ['auth_header', 'signing_secret'],
  destination_pull: [],
}

/** `password` → `PIPECTL_DESTINATION_PASSWORD`. */
export function secretVariable(key: string): string {
  return `PIPECTL_DESTINATION_${key.toUpperCase()}`
}

/** Every secret of this type whose variable is set. */
export function secretsFromEnvironment(
  type: DestinationType,
  env: NodeJS.ProcessEnv = process.env,
): Record<string, string> {
  const found: Record<string, string> = {}
  for (const key of secretKeysOf[type]) {
    const value = env[secretVariable(key)]
    if (value !== undefined) found[key] = value
  }
  return found
}

/** One secret that is needed. Throws Failure (usage) when it is in no variable and nobody can be asked. */
export async function needSecret(
  type: DestinationType,
  key: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  if (!secretKeysOf[type].includes(key)) {
    throw new Failure(
      exitCodes.usage,
      `${JSON.stringify(key)} is not a secret of ${type}`,
      secretKeysOf[type].length === 0 ? 'this type has none' : `it has ${secretKeysOf[type].join(', ')}`,
    )
  }
  const value = env[secretVariable(key)]
  if (value !== undefined) return value
  if (canAsk()) return askSecret(`${key}: `)
  throw new Failure(
    exitCodes.usage,
    `the destination needs ${key}, and this is not a terminal where it could be asked for`,
    `put it into the environment variable ${secretVariable(key)}`,
  )
}
