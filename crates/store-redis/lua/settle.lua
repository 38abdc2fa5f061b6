-- Decides everything, and answers.
local count = #alone / 2
local blind = #requests == 0
for i = 1, #rules do blind = prepared(rules[i]).blind and blind end

if blind then
  settle_blindly(count)
else
  found = call('MGET', unpack(KEYS))
  settle_each(count)
  if #requests > 0 then settle_connected(count) end
end

found[#KEYS + 1] = now
for i = 1, #told do found[#KEYS + 1 + i] = told[i] end
return found
