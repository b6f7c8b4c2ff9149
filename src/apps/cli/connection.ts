/**
 * Which daemon a command talks to, and with which key: flag > environment > profile > default. `--profile` is a flag: it
 * names a daemon and its key together, and the environment changes neither.
 *
 * A key belongs to the daemon it came with: the key of a profile is never sent to an address that the profile does not
 * hold, nor the environment's to another than PIPECTL_URL. A key never comes from a flag's value: other users of the
 * machine could read it in the process list.
 */
import { type Client, openClient } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { readTextFile } from './input-file.ts'
import { io } from './io.ts'
import { type Profile, readProfiles } from './profile-store.ts'
import { readStdin } from './terminal.ts'

const defaultUrl = 'http://127.0.0.1:8080'

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
  /** Where the key came from, in words; null when there is none. */
  keySource: string | null
  /** Why a key that there is may not be sent to this address. */
  keyWithheld: string | null
  /** The profile in use, if any. */
  profile: string | null
}

/** Resolves every piece without connecting. Throws Failure (usage) for what cannot be understood. */
export async function findTarget(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv = io().env,
): Promise<Target> {
  const { name, profile } = await chosenProfile(options, env)
  const variables = options.profile === undefined ? env : {}
  const [url, urlOrigin] = pick(options.server, variables.PIPECTL_URL, profile?.url, defaultUrl)
  // A data address belongs to the daemon that it was given with: a profile's to the profile's, a variable's to the others.
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

/** A client for a command that needs a key. Throws Failure (auth) when there is none. */
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
  throw new Failure(
    exitCodes.usage,
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
  /** The addresses that it came with; none: it may go wherever the person points. */
  homes: readonly string[]
}

function findKey(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv,
  profileName: string | null,
  profile: Profile | null,
): FoundKey | null {
  if (options.apiKeyStdin === true) {
    return { value: readStdin().trim(), origin: 'flag', source: '--api-key-stdin', homes: [] }
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

/** The data address may have another port than the daemon itself, but neither another host nor less protection. */
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

/** The key alone, or the JSON that `init --json`, `workspaces create --json` and `keys create -o json` print. */
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
    throw new Failure(
      exitCodes.usage,
      `${source}: ${JSON.stringify(text.replace(/\/\/[^@/]*@/, '//…@'))} is not the address of a daemon`,
      `give it as ${defaultUrl}, without credentials`,
    )
  }
  return url.origin + url.pathname.replace(/\/+$/, '')
}
