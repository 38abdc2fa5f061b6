-- Decides requests, one after the other, at one instant. The caller gets the states as they were
-- found and the time, and works out the rest: the numbers of a verdict are not computed here.
--
-- ARGV[1] is packed: the rules, each with a cost; for each rule, how many unconnected keys use it,
-- which come first; how many requests each of those has, if one has several; how far the time of
-- keys runs ahead, if it does; the rules of the other keys, and their requests, if there are any.
local rules, runs, times, phases, keys, requests = cmsgpack.unpack(ARGV[1])
-- Each key's state as it was found, or a code: the value is not one of ours; its verdicts are reported
-- one by one; or the key held something else when it was written.
local found = {}
local DAMAGED, TOLD, OCCUPIED = 1, 2, 3
