/** Secrets of a destination config. Each comes from its environment variable or from a prompt, never from a flag. */
import {
  type DestinationType,
  destinationTypes,
  secretKeys,
  secretKind,
} from '../../../contract/destination-words.ts'
import { usageFailure } from '../../client/failure.ts'
import { io } from '../io.ts'
import { askSecret, canAsk } from '../terminal.ts'

/** `secret_headers.x-api-key` → `PIPECTL_DESTINATION_SECRET_HEADERS_X_API_KEY`. */
export function secretVariable(place: string): string {
  return `PIPECTL_DESTINATION_${place.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}`
}

/** Every secret of this type whose variable is set. */
export function secretsFromEnvironment(
  type: DestinationType,
  env: NodeJS.ProcessEnv = io().env,
): Record<string, string> {
  const found: Record<string, string> = {}
  for (const key of secretKeysOf(type)) {
    const value = env[secretVariable(key)]
    if (value !== undefined) found[key] = value
  }
  return found
}

/**
 * One required secret: its key, or `secret_headers.NAME`. Throws Failure (usage) if its variable is not set and there
 * is no terminal for a prompt.
 */
export async function needSecret(
  type: DestinationType,
  place: string,
  env: NodeJS.ProcessEnv = io().env,
): Promise<string> {
  const { key, member } = splitPlace(place)
  const kind = secretKind(type, key)
  if (kind === undefined || (kind === 'map') !== (member !== null && member !== '')) {
    const known = secretKeys(type).map((one) => secretPlace(type, one))
    throw usageFailure(
      `${JSON.stringify(place)} is not a secret of ${type}`,
      known.length === 0 ? 'this type has none' : `it has ${known.join(', ')}`,
    )
  }
  const variable = secretVariable(place)
  return env[variable] ?? (await askFor(member === null ? place : `header ${member}`, variable))
}

/** Prompts for a secret. Throws Failure (usage) without a terminal. */
export async function askFor(what: string, variable: string): Promise<string> {
  if (canAsk()) return askSecret(`${what}: `)
  throw usageFailure(
    `the destination needs ${what}, and without a terminal there is no prompt for it`,
    `put it into the environment variable ${variable}`,
  )
}

/** `secret_headers.x-api-key` → the key, and the name within its value. The name of a header can contain dots. */
export function splitPlace(place: string): { key: string; member: string | null } {
  const dot = place.indexOf('.')
  return dot === -1
    ? { key: place, member: null }
    : { key: place.slice(0, dot), member: place.slice(dot + 1) }
}

/** The form in which `--secret` accepts it: `secret_headers.NAME` for one of several. */
export function secretPlace(type: DestinationType, key: string): string {
  return secretKind(type, key) === 'map' ? `${key}.NAME` : key
}

/** The keys that hold a single secret text. */
export function secretKeysOf(type: DestinationType): string[] {
  return secretKeys(type).filter((key) => secretKind(type, key) === 'text')
}

/** The environment variables of secrets, for `--help`. */
export function secretsHelp(): string {
  const [first, ...others] = new Set(destinationTypes.flatMap(secretKeysOf).map(secretVariable))
  const short = others.map((name) => name.replace('PIPECTL_DESTINATION', '…'))
  return `Secrets come from ${[first, ...short].join(', ')};
with --secret …_SECRET_HEADERS_NAME and …_URL too; or from a prompt on a terminal.`
}
