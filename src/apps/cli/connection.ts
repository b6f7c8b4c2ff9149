/**
 * Determines the daemon and the key of a command: flag > environment > profile > default. `--profile` is a flag: it
 * selects a daemon together with its key, and the environment changes neither.
 *
 * A key belongs to the daemon with which it was configured. The key of a profile is never sent to an address outside
 * that profile, and the environment's key only to PIPECTL_URL. A key never comes from the value of a flag, because
 * other users of the machine could read it in the process list.
 */
import { type Client, openClient } from '../client/client.ts'
import { exitCodes, Failure, usageFailure } from '../client/failure.ts'
import { readTextFile } from './input-file.ts'
import { io } from './io.ts'
import { type Profile, readProfiles } from './profile-store.ts'

export const defaultUrl = 'http://127.0.0.1:8080'

export interface ConnectionOptions {
  server?: string
  dataServer?: string
  profile?: string
  apiKeyFile?: string
  apiKeyStdin?: boolean
}

export type Origin = 'flag' | 'environment' | 'profile' | 'default'

export interface Target {
  url: string
  urlOrigin: Origin
  dataUrl: string
  dataUrlOrigin: Origin
  apiKey: string | null
  apiKeyOrigin: Origin
  /** The source of the key, for messages. Null: there is no key. */
  keySource: string | null
  /** The reason why an existing key must not be sent to this address. */
  keyWithheld: string | null
  /** The profile in use, if any. */
  profile: string | null
}

/** Resolves the target without a connection. Throws Failure (usage) for invalid values. */
export async function findTarget(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv = io().env,
): Promise<Target> {
  const { name, profile } = await chosenProfile(options, env)
  const variables = options.profile === undefined ? env : {}
  const [url, urlOrigin] = pick(options.server, variables.PIPECTL_URL, profile?.url, defaultUrl)
  // A data address belongs to the daemon with which it was configured: that of the profile, or that of the
  // environment.
  const isProfileDaemon = urlOrigin === 'profile'
  const [dataUrl, dataUrlOrigin] = pick(
    options.dataServer,
    isProfileDaemon ? undefined : variables.PIPECTL_DATA_URL,
    isProfileDaemon ? profile?.data_url : undefined,
    url,
  )
  const addresses = {
    url: normalUrl(url, '--server or PIPECTL_URL'),
    dataUrl: normalUrl(dataUrl, '--data-server or PIPECTL_DATA_URL'),
  }
  const key = findKey(options, variables, name, profile)
  const keyWithheld = key === null ? null : whyWithheld(key, addresses)
  const usable = keyWithheld === null ? key : null
  return {
    ...addresses,
    urlOrigin,
    dataUrlOrigin,
    apiKey: usable?.value ?? null,
    apiKeyOrigin: usable?.origin ?? 'default',
    keySource: usable?.source ?? null,
    keyWithheld,
    profile: name,
  }
}

/** A client for a command that needs a key. Throws Failure (auth) if there is none. */
export async function connect(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv = io().env,
): Promise<Client> {
  const target = await findTarget(options, env)
  if (target.apiKey === null) {
    throw new Failure(
      exitCodes.auth,
      `no API key for ${target.url}${target.keyWithheld === null ? '' : `: ${target.keyWithheld}`}`,
      'set PIPECTL_API_KEY, give --api-key-file or --api-key-stdin, or store one with `pipectl profile add`',
    )
  }
  return openClient(target)
}

async function chosenProfile(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv,
): Promise<{ name: string | null; profile: Profile | null }> {
  const asked = options.profile ?? (env.PIPECTL_PROFILE || undefined)
  const { current, profiles } = await readProfiles(env)
  const name = asked ?? current
  if (name === null) return { name: null, profile: null }
  const profile = profiles.get(name)
  if (profile !== undefined) return { name, profile }
  throw usageFailure(
    `there is no profile ${JSON.stringify(name)}`,
    profiles.size === 0
      ? 'create one with `pipectl profile add NAME`'
      : `choose one of ${[...profiles.keys()].join(', ')}, or create it with \`pipectl profile add\``,
  )
}

function pick(
  flag: string | undefined,
  variable: string | undefined,
  profile: string | undefined,
  fallback: string,
): [string, Origin] {
  if (flag !== undefined) return [flag, 'flag']
  if (variable) return [variable, 'environment']
  if (profile !== undefined) return [profile, 'profile']
  return [fallback, 'default']
}

interface FoundKey {
  value: string
  origin: Origin
  source: string
  /** The addresses with which the key was configured. Empty: it can be sent to any address that the user selects. */
  homes: readonly string[]
}

function findKey(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv,
  profileName: string | null,
  profile: Profile | null,
): FoundKey | null {
  if (options.apiKeyStdin === true) {
    return { value: io().readStdin().trim(), origin: 'flag', source: '--api-key-stdin', homes: [] }
  }
  if (options.apiKeyFile !== undefined) {
    const source = `--api-key-file ${options.apiKeyFile}`
    return { value: readKeyFile(options.apiKeyFile), origin: 'flag', source, homes: [] }
  }
  if (env.PIPECTL_API_KEY) {
    const homes = env.PIPECTL_URL ? [env.PIPECTL_URL, env.PIPECTL_DATA_URL || env.PIPECTL_URL] : []
    const value = env.PIPECTL_API_KEY.trim()
    return { value, origin: 'environment', source: 'PIPECTL_API_KEY', homes }
  }
  if (profile?.api_key === undefined) return null
  const homes = [profile.url, profile.data_url ?? profile.url]
  return { value: profile.api_key, origin: 'profile', source: `profile ${profileName}`, homes }
}

/** The data address can have another port than the daemon, but not another host or weaker encryption. */
function whyWithheld(key: FoundKey, { url, dataUrl }: { url: string; dataUrl: string }): string | null {
  const homes = key.homes.map((home) => new URL(normalUrl(home, key.source)))
  const [daemon] = homes
  if (daemon === undefined) return null
  const isOwn = new URL(url).origin === daemon.origin
  const data = new URL(dataUrl)
  const isOwnData = homes.some(
    (home) => home.hostname === data.hostname && (home.protocol === 'http:' || data.protocol === 'https:'),
  )
  if (isOwn && isOwnData) return null
  const sent = isOwn ? `, not to ${dataUrl}` : ''
  return `the key of ${key.source} belongs to ${daemon.origin}${sent}`
}

/**
 * The file contains only the key, or the JSON of `init --json`, `workspaces create --json` or `keys create -o json`.
 */
function readKeyFile(file: string): string {
  const text = readTextFile(file, { name: `--api-key-file ${file}`, hint: 'name a file with the key' }).trim()
  const match = /"api_key"\s*:\s*"([^"]+)"/.exec(text)
  return match?.[1] ?? text
}

function normalUrl(text: string, source: string): string {
  let url: URL | null
  try {
    url = new URL(text)
  } catch {
    url = null
  }
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '') {
    throw usageFailure(
      `${source}: ${JSON.stringify(text.replace(/\/\/[^@/]*@/, '//…@'))} is not the address of a daemon`,
      `give it as ${defaultUrl}, without credentials`,
    )
  }
  return url.origin + url.pathname.replace(/\/+$/, '')
}
