/** The commands that are equivalent to changes of a pipe's source of webhooks. Pure. */
import type { PipePatch } from '../../contract/pipe.ts'
import { sourceFields } from '../../contract/source-words.ts'
import { command } from './cli-twin.ts'
import { flagsFor, pipeFlags } from './flag-fields.ts'

/** Secrets are left out: the command asks for the secret, and takes other ones from its environment. */
export function sourceCommand(pipeName: string, change: PipePatch): string {
  const { pipe_source: source, pipe_source_headers: headers, pipe_source_raw } = change
  const raw = pipe_source_raw === undefined ? {} : { pipe_source_raw }
  return command(
    ...['pipes', 'update', pipeName],
    ...(source === undefined ? [] : sourceWordsOf(source)),
    ...(headers === undefined
      ? []
      : (headers.length === 0 ? ['none'] : headers).flatMap((name) => ['--source-header', name])),
    ...flagsFor(pipeFlags, raw),
  )
}

export function addSecretCommand(pipeName: string): string {
  return command('pipes', 'update', pipeName, '--add-source-secret')
}

export function removeSecretCommand(pipeName: string, secretId: string): string {
  return command('pipes', 'update', pipeName, '--remove-source-secret', secretId)
}

function sourceWordsOf(source: NonNullable<PipePatch['pipe_source']> | null): string[] {
  if (source === null) return ['--source', 'none']
  const settings = sourceFields(source.type).flatMap(([key, { secret }]) => {
    const value = source[key]
    const isShown = secret === undefined && value !== undefined && value !== null
    return isShown ? ['--source-set', `${key}=${value}`] : []
  })
  return ['--source', source.type, ...settings]
}
