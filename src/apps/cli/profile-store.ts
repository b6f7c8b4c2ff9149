/**
 * Profiles: named daemons with their keys, in `$XDG_CONFIG_HOME/pipectl/profiles.toml` (mode 0600, because it contains keys).
 *
 *   current = "prod"
 *   [profiles.prod]
 *   url = "https://pipes.example.com"
 *   api_key = "ppl1_…"
 */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { isObject } from '../../contract/is-object.ts'
import { commandFailure } from '../client/failure.ts'
import { io } from './io.ts'

export interface Profile {
  url: string
  data_url?: string
  api_key?: string
}
export interface Profiles {
  current: string | null
  profiles: Map<string, Profile>
}

export function profilesFile(env: NodeJS.ProcessEnv): string {
  return path.join(xdgDir(env.XDG_CONFIG_HOME, '.config', env), 'profiles.toml')
}

/** The directory in which resumable commands store their progress. */
export function stateDir(env: NodeJS.ProcessEnv): string {
  return xdgDir(env.XDG_STATE_HOME, path.join('.local', 'state'), env)
}

/** The XDG specification says that a relative path must be ignored. */
function xdgDir(value: string | undefined, fallback: string, env: NodeJS.ProcessEnv): string {
  const base =
    value !== undefined && path.isAbsolute(value) ? value : path.join(env.HOME ?? os.homedir(), fallback)
  return path.join(base, 'pipectl')
}

/** Empty if the file does not exist. Throws Failure if it cannot be read or parsed. */
export async function readProfiles(env: NodeJS.ProcessEnv): Promise<Profiles> {
  const file = profilesFile(env)
  const profiles: Profiles = { current: null, profiles: new Map() }
  if (!existsSync(file)) return profiles
  warnIfReadableByOthers(file)
  const { parse } = await import('smol-toml')
  let table: Record<string, unknown>
  try {
    table = parse(readFileSync(file, 'utf8'))
  } catch (error) {
    const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    throw commandFailure(`${file} cannot be read: ${reason}`, 'correct the file, or move it away', error)
  }
  if (typeof table.current === 'string') profiles.current = table.current
  if (!isObject(table.profiles)) return profiles
  for (const [name, value] of Object.entries(table.profiles)) {
    if (!isObject(value) || typeof value.url !== 'string') {
      throw commandFailure(
        `${file}: profile ${name} has no url`,
        `add it, or run \`pipectl profile remove ${name}\``,
      )
    }
    const profile: Profile = { url: value.url }
    if (typeof value.data_url === 'string') profile.data_url = value.data_url
    if (typeof value.api_key === 'string') profile.api_key = value.api_key
    profiles.profiles.set(name, profile)
  }
  return profiles
}

export async function writeProfiles(env: NodeJS.ProcessEnv, profiles: Profiles): Promise<string> {
  const file = profilesFile(env)
  const { stringify } = await import('smol-toml')
  const table: Record<string, unknown> = { profiles: Object.fromEntries(profiles.profiles) }
  const text = stringify(profiles.current === null ? table : { current: profiles.current, ...table })
  replaceFile(file, text, true)
  return file
}

/** Only its owner can read it. `flush`: it is on disk when this returns. */
export function replaceFile(file: string, text: string, flush = false): void {
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 })
  const temporary = `${file}.${process.pid}.tmp`
  writeFileSync(temporary, text, { mode: 0o600, flush })
  // The umask cannot widen the mode, but a leftover file of this name could have another one.
  chmodSync(temporary, 0o600)
  renameSync(temporary, file)
}

function warnIfReadableByOthers(file: string): void {
  if ((statSync(file).mode & 0o077) !== 0) {
    io().stderr.write(`pipectl: warning: ${file} holds keys and others can read it; run: chmod 600 ${file}\n`)
  }
}
