/** Turns segment files into what the version before format 2 would have written. */
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'

/** All segments of a buffer that is closed. */
export function makeFormat1(dir: string): void {
  for (const name of listSegments(dir)) {
    const db = new Database(segmentFile(dir, name))
    // As that version left them: sealed ones too.
    db.pragma('journal_mode = WAL')
    db.function('crc32', (body) => crc32(body as Buffer))
    db.exec('UPDATE message SET crc = crc32(body)')
    for (const column of [
      'format',
      'segment_id',
      'data_dir_id',
      'epoch',
      'first_seq',
      'previous_segment_id',
    ]) {
      db.exec(`ALTER TABLE segment DROP COLUMN ${column}`)
    }
    db.exec('DROP TABLE hole')
    db.close()
  }
}
