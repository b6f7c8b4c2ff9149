/**
 * Which daemon a command talks to, and with which key: flag > environment > profile > default, each piece by itself.
 * A key never comes from a flag's value: other users of the machine could read it in the process list.
 */
import { readFileSync } from 'node:fs'
import { type Client, openClient } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { type Profile, readProfiles } from './profiles.ts'
import { readStdin } from './terminal.ts'

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
  /** The profile in use, if any. */
  profile: string | null
}

/** Resolves every piece without connecting. Throws Failure (usage) for what cannot be understood. */
export async function findTarget(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Target> {
  const { name, profile } = await chosenProfile(options, env)
  const [url, urlOrigin] = pick(options.server, env.PIPECTL_URL, profile?.url, defaultUrl)
  // A data address of the profile belongs to the profile's own daemon, not to one named by flag or environment.
  const profileData = urlOrigin === 'profile' ? profile?.data_url : undefined
  const [dataUrl, dataUrlOrigin] = pick(options.dataServer, env.PIPECTL_DATA_URL, profileData, url)
  const [apiKey, apiKeyOrigin] = findKey(options, env, profile)
  return {
    url: normalUrl(url, '--server or PIPECTL_URL'),
    urlOrigin,
    dataUrl: normalUrl(dataUrl, '--data-server or PIPECTL_DATA_URL'),
    dataUrlOrigin,
    apiKey,
    apiKeyOrigin,
    profile: name,
  }
}

/** A client for a command that needs a key. Throws Failure (auth) when there is none. */
export async function connect(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv = process.env,
): Promise<Client> {
  const target = await findTarget(options, env)
  if (target.apiKey === null) {
    throw new Failure(
      exitCodes.auth,
      `no API key for ${target.url}`,
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
      ? 'make one with `pipectl profile add NAME`'
      : `choose one of ${[...profiles.keys()].join(', ')}, or make it with \`pipectl profile add\``,
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

function findKey(
  options: ConnectionOptions,
  env: NodeJS.ProcessEnv,
  profile: Profile | null,
): [string | null, Origin] {
  if (options.apiKeyStdin === true) return [readStdin().trim(), 'flag']
  if (options.apiKeyFile !== undefined) return [readKeyFile(options.apiKeyFile), 'flag']
  if (env.PIPECTL_API_KEY) return [env.PIPECTL_API_KEY.trim(), 'environment']
  if (profile?.api_key !== undefined) return [profile.api_key, 'profile']
  return [null, 'default']
}

/** The key alone, or the JSON that `init --json`, `workspaces create --json` and `keys create -o json` print. */
function readKeyFile(file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    throw new Failure(
      exitCodes.usage,
      `--api-key-file ${file} cannot be read (${code})`,
      'name a file that holds the key',
      error,
    )
  }
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
