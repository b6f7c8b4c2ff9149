/**
 * The quick check of the buffer in `pipectl doctor`: whether all files can be opened and belong together, and which
 * files were set aside. `verify` reads every message.
 */
import { existsSync, readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileBytes } from '../log/segments/layout.ts'
import { messageOf } from '../platform/error-code.ts'
import { bytes, counted } from '../platform/quantities.ts'
import { type Check, checkNamed } from './check.ts'
import { dataDirAt } from './data-dir.ts'
import { knownLossesName } from './known-losses.ts'
import { glanceAtDataDir, type VerifyReport } from './verify.ts'

/** No checks if there is no buffer yet. */
export function bufferChecks(root: string): Check[] {
  const { bufferDir, metadataFile, quarantineDir } = dataDirAt(root)
  if (!existsSync(bufferDir) || !existsSync(metadataFile)) return []
  try {
    const { report } = glanceAtDataDir(root)
    return [bufferCheck(report), lanesCheck(report), ballastCheck(bufferDir), quarantineCheck(quarantineDir)]
  } catch (error) {
    return [
      checkNamed('buffer').fail(
        `${bufferDir} cannot be read: ${messageOf(error)}`,
        'run doctor as the user of the daemon',
      ),
    ]
  }
}

function bufferCheck({ files, missing, totals, data_dir: root }: VerifyReport): Check {
  const check = checkNamed('buffer')
  const inBuffer = files.filter((one) => one.file !== 'metadata.db')
  const damaged = inBuffer.filter((one) => one.result !== 'ok')
  const size = `${counted(totals.segments, 'segment')}, ${bytes(totals.bytes)}`
  if (damaged.length === 0 && missing.length === 0)
    return check.ok(`${size}: all can be opened, none is missing`)
  const found = [
    ...damaged.map((one) => `${one.file} ${one.problems.join('; ')}`),
    ...missing.map((one) => `stream_seq ${one.first_stream_seq} to ${one.last_stream_seq} missing`),
  ]
  const named = found.slice(0, 3).join('; ')
  const more = found.length > 3 ? `; and ${counted(found.length - 3, 'more problem')}` : ''
  return check.fail(
    `${size}: ${named}${more}`,
    `run: pipectl verify --data-dir ${root}; then, with the daemon stopped: pipectl repair --data-dir ${root}`,
  )
}

function lanesCheck({ files }: VerifyReport): Check {
  const check = checkNamed('lanes')
  const problems = files.find((one) => one.file === 'metadata.db')?.problems ?? []
  if (problems.length === 0) return check.ok('match the log')
  return check.fail(
    problems.join('; '),
    'see docs/damaged-disk.md for the behavior of the daemon and for a restore',
  )
}

/** The daemon creates the ballast when there is free space for three of them. */
function ballastCheck(bufferDir: string): Check {
  const check = checkNamed('ballast')
  const size = fileBytes(path.join(bufferDir, 'ballast'))
  if (size > 0) return check.ok(`${bytes(size)} are reserved for a full disk`)
  return check.warn(
    'is missing: no space is reserved for a full disk',
    'free disk space: a running daemon creates it when there is room for three times its size',
  )
}

function quarantineCheck(quarantineDir: string): Check {
  const check = checkNamed('quarantine')
  const files = filesIn(quarantineDir).filter((file) => path.basename(file) !== knownLossesName)
  if (files.length === 0) return check.ok('nothing was set aside')
  const size = files.reduce((sum, file) => sum + fileBytes(file), 0)
  return check.warn(
    `${counted(files.length, 'file')}, ${bytes(size)}: damaged messages or segments were set aside`,
    `check ${quarantineDir}; pipectl never deletes these files`,
  )
}

function filesIn(directory: string): string[] {
  if (!existsSync(directory)) return []
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(directory, name))
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true)
}
