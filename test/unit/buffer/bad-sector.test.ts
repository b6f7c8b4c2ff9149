/** A sector of the disk cannot be read: the messages with a part in it are lost, all others are read and more are accepted. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { childFlags } from '../../support/child-flags.ts'
import { cleanEnv } from '../../support/daemon.ts'
import { faultyDisk } from '../../support/faults/library.ts'
import { KiB, message, newPipeId, openAt, specAt, temporaryDirectory } from './open.ts'

const sectorBytes = 4096
const settings = { segmentMaxBytes: 64 * KiB }
const program = fileURLToPath(new URL('./drain.ts', import.meta.url))

const sectors: Record<string, { segment: number; page: number; mayLose: number }> = {
  'the first one of the oldest segment': { segment: 0, page: 0, mayLose: 0 },
  'one with messages of a sealed segment': { segment: 2, page: 10, mayLose: 6 },
  'the first one of the segment being written': { segment: -1, page: 0, mayLose: 0 },
  'one with messages of the segment being written': { segment: -1, page: -2, mayLose: 6 },
}

for (const [which, { segment, page, mayLose }] of Object.entries(sectors)) {
  t.test(`a bad sector: ${which}`, async (t) => {
    const directory = temporaryDirectory(t)
    const root = path.join(directory, 'root')
    mkdirSync(root)
    const pipeId = newPipeId()
    const { handle, close } = await openAt(t, root, settings)
    const seqs: number[] = []
    for (let n = 0; n < 350; n += 1) {
      seqs.push((await handle.appender.append(message(pipeId, `${n} `.padEnd(700, 'x')))).seq)
    }
    await close()
    const { dir, quarantineDir } = specAt(root)
    const file = segmentFile(dir, listSegments(dir).at(segment)!)
    const pages = readFileSync(file).length / sectorBytes
    const offset = (page < 0 ? pages + page : page) * sectorBytes
    const disk = faultyDisk(root, path.join(directory, 'work'))
    disk.setBadSectors([{ file, offset, bytes: sectorBytes }])
    const args = [...childFlags, program, root, pipeId, String(seqs.length), JSON.stringify(settings)]
    const output = execFileSync(process.execPath, args, { env: { ...cleanEnv(), ...disk.env } })
    const found = JSON.parse(output.toString()) as { seqs: number[]; after: string[] }
    const lost = seqs.filter((seq) => !found.seqs.includes(seq))
    t.ok(lost.length <= mayLose && (lost.length > 0 || mayLose === 0), `${lost.length} messages are lost`)
    t.same(found.after, ['next'], 'more is accepted')
    t.ok(readdirSync(path.join(quarantineDir, 'segments')).includes(path.basename(file)))
  })
}
