/**
 * Loaded into each test, by test/run-files.ts and by tap (`.taprc`). tap hooks the spawning of processes so that each Node.js below a test loads its
 * instruments for coverage, which is off here: they took half of the CPU of a test that runs commands (30 s against 18 s
 * for `unit/cli/backup`). Daemons and commands then run as they do for users.
 */
import processOnSpawn from 'process-on-spawn'

processOnSpawn.removeAllListeners()
