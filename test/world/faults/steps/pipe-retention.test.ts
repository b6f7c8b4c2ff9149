/**
 * A rewrite without the messages of a pipe that are too old, whose disk fails or that is killed, at any step: the messages of
 * other pipes stay.
 */
import { testSteps } from '../step-tests.ts'

testSteps('pipe retention', { errors: ['EIO'] })
